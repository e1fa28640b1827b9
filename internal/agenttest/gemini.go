package agenttest

import (
	"slices"
	"strings"
)

// Gemini's generateContent: https://ai.google.dev/api/generate-content

func readContents(path string, body object) conversation {
	c := conversation{
		stream: strings.HasSuffix(path, ":streamGenerateContent"),
		text:   texts(inner(body, "systemInstruction")["parts"]) + "\n",
	}
	c.model, _, _ = strings.Cut(path[strings.LastIndex(path, "/")+1:], ":")
	for _, t := range objects(body["tools"]) {
		for _, f := range objects(t["functionDeclarations"]) {
			schema := inner(f, "parameters")
			if schema == nil {
				schema = inner(f, "parametersJsonSchema")
			}
			c.tools = append(c.tools, newTool(text(f, "name"), text(f, "description"), schema))
		}
	}
	for _, m := range objects(body["contents"]) {
		for _, p := range objects(m["parts"]) {
			answered := text(inner(p, "functionResponse"), "name")
			if slices.ContainsFunc(c.tools, func(t tool) bool { return t.name == answered }) { // calls lack ids here
				c.results++
			}
			c.text += text(p, "text") + "\n"
		}
	}
	return c
}

func contents(r reply, parts []object, finish any) object {
	candidate := object{"index": 0, "content": object{"role": "model", "parts": parts}}
	if finish != nil {
		candidate["finishReason"] = finish
	}
	return object{
		"candidates": []object{candidate}, "modelVersion": r.model, "responseId": "standin",
		"usageMetadata": object{"promptTokenCount": r.in, "candidatesTokenCount": r.out, "totalTokenCount": r.in +
			r.out},
	}
}

func contentsFinish(r reply) string { return r.finish.of("STOP", "STOP", "MAX_TOKENS", "SAFETY") }

func contentsCalls(r reply) []object {
	out := []object{}
	for _, c := range r.calls {
		out = append(out, object{"functionCall": object{"name": c.name, "args": c.args}})
	}
	return out
}

func contentsDocument(r reply) any {
	all := contentsCalls(r)
	if r.text != "" {
		all = append([]object{{"text": r.text}}, all...)
	}
	return contents(r, all, contentsFinish(r))
}

func contentsFrames(r reply) []frame {
	var out []frame
	if r.text != "" {
		for _, p := range parts(r.text) {
			out = append(out, unnamed(contents(r, []object{{"text": p}}, nil)))
		}
	}
	return append(out, unnamed(contents(r, contentsCalls(r), contentsFinish(r))))
}

func contentsError(e wireError) []frame { return []frame{{data: e.body}} }
