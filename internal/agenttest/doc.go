// Package agenttest is a stand-in for the providers of models: it speaks OpenAI's chat completions and
// responses, Anthropic's messages and Gemini's generateContent, streaming and not, and fails in every way that
// the table of cases has.
//
//	http://host/case/<name>/v1/chat/completions       the case decides how the request is answered
//	http://host/case/<name>@<run>/v1/messages         the same, counted apart: "fails twice, then works" is per run
//
// Its model is a script (model.go): it answers with tool calls chosen from the tools that the request declares,
// so that a real agent CLI really reads, writes and runs something, and ends with a text. How far it has come
// it sees in the conversation.
//
// A case is one row (cases.go): what the answers are for each provider, where they are documented, and how an
// agent that ends with them should be read.
//
// # Invariants
//
//   - A body is what its provider documents; the row names the source.
//   - The same requests in the same run get the same answers: nothing is left to chance or to time.
//   - Requests without tools (titles, summaries) are counted apart, so that they never use up a case's answers.
//
// # Clock
//
// Wall time, for what is slow on purpose.
//
// # Failure policy
//
// A request that no provider would understand is answered as the provider would: 400, or 404 for an unknown path.
package agenttest
