package agenttest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// schemas are declarations of tools by three different agents.
var schemas = object{
	"read_file": object{
		"type": "object", "properties": object{"path": object{"type": "string"}},
		"required": []string{"path"},
	},
	"write": object{
		"type": "object", "properties": object{
			"file_path": object{"type": "string"},
			"content":   object{"type": "string"}, "overwrite": object{"type": "boolean"},
		},
		"required": []string{"file_path", "content", "overwrite"},
	},
	"shell": object{
		"type":       "object",
		"properties": object{"command": object{"type": "array", "items": object{"type": "string"}}},
		"required":   []string{"command"},
	},
}

// toolNames are the tools for the model.
var toolNames = []string{"read_file", "write", "shell"}

// toolsOf returns the declarations of the tools in a protocol.
func toolsOf(p Protocol) (tools []object) {
	for _, n := range toolNames {
		switch p {
		case OpenAIChat:
			tools = append(tools, object{"type": "function", "function": object{"name": n, "parameters": schemas[n]}})
		case OpenAIResponses:
			tools = append(tools, object{"type": "function", "name": n, "parameters": schemas[n]})
		case Anthropic:
			tools = append(tools, object{"name": n, "input_schema": schemas[n]})
		case Gemini:
			tools = append(tools, object{"name": n, "parameters": schemas[n]})
		}
	}
	return tools
}

// request returns a valid request of a protocol, which contains the results of that many tool calls.
func request(p Protocol, stream bool, answered int) (path string, body object) {
	const system = "Working directory: /tmp/checkout\n"
	tools := toolsOf(p)
	body = object{"model": "standin", "stream": stream, "tools": tools}
	user := []object{{"role": "user", "content": "do it"}}
	switch p {
	case OpenAIChat:
		messages := append([]object{{"role": "system", "content": system}}, user...)
		for i := range answered {
			messages = append(messages, object{
				"role": "tool", "tool_call_id": fmt.Sprint("call_", i),
				"content": "fine",
			})
		}
		body["messages"] = messages
		return "/v1/chat/completions", body
	case OpenAIResponses:
		input := user
		for i := range answered {
			input = append(input, object{
				"type": "function_call_output", "call_id": fmt.Sprint("call_", i),
				"output": "fine",
			})
		}
		body["input"], body["instructions"] = input, system
		return "/v1/responses", body
	case Anthropic:
		messages := user
		for i := range answered {
			messages = append(messages,
				object{"role": "user", "content": []object{{
					"type":        "tool_result",
					"tool_use_id": fmt.Sprint("call_", i), "content": "fine",
				}}})
		}
		body["messages"], body["system"] = messages, []object{{"type": "text", "text": system}}
		return "/v1/messages", body
	}
	contents := []object{{"role": "user", "parts": []object{{"text": "do it"}}}}
	for i := range answered {
		contents = append(contents,
			object{"role": "user", "parts": []object{{"functionResponse": object{
				"name":     toolNames[i],
				"response": object{"output": "fine"},
			}}}})
	}
	body = object{
		"tools": []object{{"functionDeclarations": tools}}, "contents": contents,
		"systemInstruction": object{"parts": []object{{"text": system}}},
	}
	if stream {
		return "/v1beta/models/standin:streamGenerateContent?alt=sse", body
	}
	return "/v1beta/models/standin:generateContent", body
}

func post(base, path string, body object) (*http.Response, string, error) {
	resp, err := client.Post(base+path, "application/json", strings.NewReader(encode(body)))
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp, string(data), err
}

// documentsOf returns the JSON documents of an answer, or of its stream.
func documentsOf(body string, stream bool) (documents []string) {
	if !stream {
		return []string{body}
	}
	for line := range strings.Lines(body) {
		if data, ok := strings.CutPrefix(line, "data: "); ok && strings.TrimSpace(data) != "[DONE]" {
			documents = append(documents, data)
		}
	}
	return documents
}

// calls returns the tools that an answer calls, with their arguments, as a client of the protocol would read them.
func calls(t *testing.T, p Protocol, stream bool, body string) (names []string, args []object) {
	t.Helper()
	add := func(name string, arguments any) {
		o, ok := arguments.(object)
		if s, isText := arguments.(string); isText {
			ok = json.Unmarshal([]byte(s), &o) == nil
		}
		if !ok {
			t.Errorf("%s: arguments %v are not an object", name, arguments)
		}
		names, args = append(names, name), append(args, o)
	}
	var begun object
	for _, d := range documentsOf(body, stream) {
		var o object
		if err := json.Unmarshal([]byte(d), &o); err != nil {
			t.Fatalf("%s: %v in %q", p, err, d)
		}
		switch p {
		case OpenAIChat:
			for _, c := range objects(o["choices"]) {
				for _, call := range append(objects(inner(c, "message")["tool_calls"]),
					objects(inner(c, "delta")["tool_calls"])...) {
					add(text(inner(call, "function"), "name"), inner(call, "function")["arguments"])
				}
			}
		case OpenAIResponses:
			if stream && o["type"] == "response.completed" {
				o = inner(o, "response")
			}
			for _, item := range objects(o["output"]) {
				if item["type"] == "function_call" {
					add(text(item, "name"), item["arguments"])
				}
			}
		case Anthropic:
			for _, b := range objects(o["content"]) {
				if b["type"] == "tool_use" {
					add(text(b, "name"), b["input"])
				}
			}
			if b := inner(o, "content_block"); b["type"] == "tool_use" {
				begun = b
			}
			if d := inner(o, "delta"); d["type"] == "input_json_delta" {
				add(text(begun, "name"), d["partial_json"])
			}
		case Gemini:
			for _, c := range objects(o["candidates"]) {
				for _, part := range objects(inner(c, "content")["parts"]) {
					if f := inner(part, "functionCall"); f != nil {
						add(text(f, "name"), f["args"])
					}
				}
			}
		}
	}
	return names, args
}
