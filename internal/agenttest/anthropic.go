package agenttest

// The Anthropic Messages API: https://docs.anthropic.com/en/api/messages, .../messages-streaming

func readMessages(_ string, body object) conversation {
	c := conversation{model: text(body, "model"), stream: body["stream"] == true, text: texts(body["system"]) + "\n"}
	for _, t := range objects(body["tools"]) {
		c.tools = append(c.tools, newTool(text(t, "name"), text(t, "description"), inner(t, "input_schema")))
	}
	for _, m := range objects(body["messages"]) {
		for _, b := range objects(m["content"]) {
			if text(b, "type") == "tool_result" {
				c.count(text(b, "tool_use_id"))
			}
		}
		c.text += texts(m["content"]) + "\n"
	}
	return c
}

func messagesStop(r reply) string {
	return r.finish.of("end_turn", "tool_use", "max_tokens", "refusal")
}

func messagesDocument(r reply) any {
	content := []object{}
	if r.text != "" {
		content = append(content, object{"type": "text", "text": r.text})
	}
	for _, c := range r.calls {
		content = append(content, object{"type": "tool_use", "id": c.id, "name": c.name, "input": c.args})
	}
	return object{
		"id": "msg_standin", "type": "message", "role": "assistant", "model": r.model, "content": content,
		"stop_reason": messagesStop(r), "stop_sequence": nil,
		"usage": object{"input_tokens": r.in, "output_tokens": r.out},
	}
}

func messagesFrames(r reply) []frame {
	message := object{
		"id": "msg_standin", "type": "message", "role": "assistant", "model": r.model, "content": []any{},
		"stop_reason": nil, "stop_sequence": nil, "usage": object{"input_tokens": r.in, "output_tokens": 1},
	}
	out := []frame{named(object{"type": "message_start", "message": message})}
	index := 0
	block := func(begun object, deltas ...object) {
		out = append(out, named(object{"type": "content_block_start", "index": index, "content_block": begun}))
		if index == 0 {
			out = append(out, named(object{"type": "ping"}))
		}
		for _, d := range deltas {
			out = append(out, named(object{"type": "content_block_delta", "index": index, "delta": d}))
		}
		out = append(out, named(object{"type": "content_block_stop", "index": index}))
		index++
	}
	if r.text != "" {
		var deltas []object
		for _, p := range parts(r.text) {
			deltas = append(deltas, object{"type": "text_delta", "text": p})
		}
		block(object{"type": "text", "text": ""}, deltas...)
	}
	for _, c := range r.calls {
		block(object{"type": "tool_use", "id": c.id, "name": c.name, "input": object{}},
			object{"type": "input_json_delta", "partial_json": c.arguments()})
	}
	return append(out,
		named(object{
			"type": "message_delta", "delta": object{"stop_reason": messagesStop(r), "stop_sequence": nil},
			"usage": object{"output_tokens": r.out},
		}),
		named(object{"type": "message_stop"}))
}

// messagesError returns an error event: https://docs.anthropic.com/en/docs/build-with-claude/streaming#error-events
func messagesError(e wireError) []frame { return []frame{{event: "error", data: e.body}} }
