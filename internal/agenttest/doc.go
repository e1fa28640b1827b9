// Package agenttest is a fake model provider. It implements OpenAI's chat completions and responses, Anthropic's
// messages and Gemini's generateContent, with and without streaming. It fails in every way listed in the table of
// cases.
//
//	http://host/case/<name>/v1/chat/completions       the case decides how the request is answered
//	http://host/case/<name>@<run>/v1/messages         the same, counted separately for each run
//
// The model is a script (model.go). It calls tools that the request declares, so that a real agent CLI reads, writes
// and runs something, and finishes with a text. It derives its progress from the conversation.
//
// A case is one row (cases.go): the answers for each provider, their documentation, and the expected classification of
// an agent that receives them.
//
// # Invariants
//
//   - Bodies follow the provider's documentation, and the row cites the source.
//   - The same requests in the same run always get the same answers, regardless of chance and time.
//   - Requests without tools (titles, summaries) are counted separately, so that they never use up a case's answers.
//
// # Clock
//
// Wall time, for deliberately slow answers.
//
// # Failure policy
//
// The server answers a malformed request as the provider would, with 400, and an unknown path with 404.
package agenttest
