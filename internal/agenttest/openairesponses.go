package agenttest

import (
	"encoding/json"
	"fmt"
)

// The OpenAI Responses API: https://platform.openai.com/docs/api-reference/responses, .../responses-streaming

func readResponses(_ string, body object) conversation {
	c := conversation{model: text(body, "model"), stream: body["stream"] == true, text: text(body, "instructions") +
		"\n" + text(body, "input") + "\n"}
	for _, t := range objects(body["tools"]) {
		if text(t, "type") == "function" {
			c.tools = append(c.tools, newTool(text(t, "name"), text(t, "description"), inner(t, "parameters")))
		}
	}
	for _, item := range objects(body["input"]) {
		if text(item, "type") == "function_call_output" {
			c.count(text(item, "call_id"))
			continue
		}
		c.text += texts(item["content"]) + "\n"
	}
	return c
}

func responsesOutput(r reply) []object {
	var out []object
	if r.text != "" {
		out = append(out, object{
			"id": "msg_standin", "type": "message", "status": "completed", "role": "assistant",
			"content": []object{{"type": "output_text", "text": r.text, "annotations": []any{}}},
		})
	}
	for _, c := range r.calls {
		out = append(out, object{
			"id": "fc_" + c.id, "type": "function_call", "status": "completed", "call_id": c.id, "name": c.name,
			"arguments": c.arguments(),
		})
	}
	return out
}

func responsesObject(r reply, status string, output []object) object {
	o := object{
		"id": "resp_standin", "object": "response", "created_at": 1763800000, "model": r.model, "status": status,
		"error": nil, "incomplete_details": nil, "output": output, "parallel_tool_calls": true, "tools": []any{},
		"usage": nil,
	}
	if status != "in_progress" {
		o["usage"] = object{
			"input_tokens": r.in, "output_tokens": r.out, "total_tokens": r.in + r.out,
			"input_tokens_details": object{"cached_tokens": 0}, "output_tokens_details": object{"reasoning_tokens": 0},
		}
	}
	if status == "incomplete" {
		o["incomplete_details"] = object{"reason": r.finish.of("", "", "max_output_tokens", "content_filter")}
	}
	return o
}

func responsesStatus(r reply) string {
	return r.finish.of("completed", "completed", "incomplete", "incomplete")
}

func responsesDocument(r reply) any {
	return responsesObject(r, responsesStatus(r), responsesOutput(r))
}

func responsesFrames(r reply) []frame {
	var out []frame
	add := func(kind string, o object) {
		o["type"], o["sequence_number"] = kind, len(out)
		out = append(out, named(o))
	}
	add("response.created", object{"response": responsesObject(r, "in_progress", []object{})})
	add("response.in_progress", object{"response": responsesObject(r, "in_progress", []object{})})
	for i, item := range responsesOutput(r) {
		id := item["id"]
		if item["type"] == "message" {
			part := func(text string) object {
				return object{"type": "output_text", "text": text, "annotations": []any{}}
			}
			begun := object{
				"id": id, "type": "message", "status": "in_progress", "role": "assistant",
				"content": []any{},
			}
			add("response.output_item.added", object{"output_index": i, "item": begun})
			add("response.content_part.added", object{
				"item_id": id, "output_index": i, "content_index": 0,
				"part": part(""),
			})
			for _, p := range parts(r.text) {
				add("response.output_text.delta", object{
					"item_id": id, "output_index": i, "content_index": 0,
					"delta": p,
				})
			}
			add("response.output_text.done", object{
				"item_id": id, "output_index": i, "content_index": 0,
				"text": r.text,
			})
			add("response.content_part.done", object{
				"item_id": id, "output_index": i, "content_index": 0,
				"part": part(r.text),
			})
		} else {
			begun := object{
				"id": id, "type": "function_call", "status": "in_progress", "call_id": item["call_id"],
				"name": item["name"], "arguments": "",
			}
			add("response.output_item.added", object{"output_index": i, "item": begun})
			add("response.function_call_arguments.delta",
				object{"item_id": id, "output_index": i, "delta": item["arguments"]})
			add("response.function_call_arguments.done",
				object{"item_id": id, "output_index": i, "arguments": item["arguments"]})
		}
		add("response.output_item.done", object{"output_index": i, "item": item})
	}
	status := responsesStatus(r)
	add("response."+status, object{"response": responsesObject(r, status, responsesOutput(r))})
	return out
}

// responsesError returns response.failed:
// https://platform.openai.com/docs/api-reference/responses-streaming/response/failed
func responsesError(e wireError) []frame {
	var body object
	if json.Unmarshal([]byte(e.body), &body) != nil {
		return []frame{{data: e.body}}
	}
	in := inner(body, "error")
	code := text(in, "code")
	if code == "" {
		code = text(in, "type")
	}
	o := responsesObject(reply{}, "failed", []object{})
	o["error"] = object{"code": code, "message": fmt.Sprint(in["message"])}
	return []frame{named(object{"type": "response.failed", "sequence_number": 3, "response": o})}
}
