package agenttest

// The OpenAI Chat Completions API: https://platform.openai.com/docs/api-reference/chat

func readChat(_ string, body object) conversation {
	c := conversation{model: text(body, "model"), stream: body["stream"] == true}
	for _, t := range objects(body["tools"]) {
		f := inner(t, "function")
		c.tools = append(c.tools, newTool(text(f, "name"), text(f, "description"), inner(f, "parameters")))
	}
	for _, m := range objects(body["messages"]) {
		if text(m, "role") == "tool" {
			c.count(text(m, "tool_call_id"))
			continue
		}
		c.text += texts(m["content"]) + "\n"
	}
	return c
}

func chatFinish(r reply) string { return r.finish.of("stop", "tool_calls", "length", "content_filter") }

func chatUsage(r reply) object {
	return object{"prompt_tokens": r.in, "completion_tokens": r.out, "total_tokens": r.in + r.out}
}

func chatDocument(r reply) any {
	message := object{"role": "assistant", "content": r.text, "refusal": nil}
	if len(r.calls) > 0 {
		message["tool_calls"] = chatCalls(r, false)
	}
	return object{
		"id": "chatcmpl-standin", "object": "chat.completion", "created": 1763800000, "model": r.model,
		"usage":   chatUsage(r),
		"choices": []object{{"index": 0, "message": message, "logprobs": nil, "finish_reason": chatFinish(r)}},
	}
}

func chatCalls(r reply, indexed bool) []object {
	var out []object
	for i, c := range r.calls {
		one := object{"id": c.id, "type": "function", "function": object{"name": c.name, "arguments": c.arguments()}}
		if indexed {
			one["index"] = i
		}
		out = append(out, one)
	}
	return out
}

func chatFrames(r reply) []frame {
	chunk := func(choices []object, usage any) frame {
		return unnamed(object{
			"id": "chatcmpl-standin", "object": "chat.completion.chunk", "created": 1763800000, "model": r.model,
			"choices": choices, "usage": usage,
		})
	}
	delta := func(d object, finish any) frame {
		return chunk([]object{{"index": 0, "delta": d, "logprobs": nil, "finish_reason": finish}}, nil)
	}
	out := []frame{delta(object{"role": "assistant", "content": ""}, nil)}
	for _, p := range parts(r.text) {
		out = append(out, delta(object{"content": p}, nil))
	}
	if len(r.calls) > 0 {
		out = append(out, delta(object{"tool_calls": chatCalls(r, true)}, nil))
	}
	return append(out, delta(object{}, chatFinish(r)), chunk([]object{}, chatUsage(r)), frame{data: "[DONE]"})
}

func chatError(e wireError) []frame { return []frame{{data: e.body}} }
