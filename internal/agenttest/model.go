package agenttest

import (
	"fmt"
	"path"
	"strings"
)

// Task is the scripted model's work. In any checkout, it reads a file, writes another, runs a command and stops.
type Task struct {
	Read    string // file to read; may be ""
	Write   string
	Content string
	Check   string // command to run; may be ""
	Done    string // the final text
}

// DefaultTask creates a file that no repository contains.
var DefaultTask = Task{
	Read: "README.md", Write: "standin.txt", Content: "Written by the scripted model of Retake's fake provider.\n",
	Check: "cat standin.txt", Done: "I have written standin.txt, and read it back.",
}

// unknownTool is the tool called in the case about unknown tools. Results of unknownCall do not count as steps.
const (
	unknownTool = "archive_file"
	unknownCall = "call_unknown"
)

// count counts a tool result, unless it comes from the unknown tool.
func (c *conversation) count(id string) {
	if id != unknownCall {
		c.results++
	}
}

// model returns the script's next answer.
func (t Task) model(c conversation) reply {
	steps := t.steps(c)
	r := reply{model: c.model, text: t.Done}
	switch {
	case len(c.tools) == 0:
		r.text = "A small change"
	case c.results < len(steps):
		step := steps[c.results]
		step.id = fmt.Sprintf("call_%02d", c.results+1)
		r.text, r.calls, r.finish = "Next: "+step.name+".", []call{step}, finishTools
	}
	r.count(c)
	return r
}

// count estimates tokens at four bytes each.
func (r *reply) count(c conversation) {
	r.model = c.model
	r.in, r.out = c.bytes/4, (len(r.text)+3)/4
	for _, each := range r.calls {
		r.out += len(each.arguments()) / 4
	}
}

// steps returns the script's tool calls, limited to tools that the request declares.
func (t Task) steps(c conversation) []call {
	at := func(name string) string { return path.Join(workdir(c.text), name) }
	var out []call
	if tool, ok := find(c.tools, reads); ok && t.Read != "" {
		out = append(out, tool.with(object{tool.param(pathWords): at(t.Read)}))
	}
	out = append(out, t.writing(c, at(t.Write))...)
	if tool, ok := find(c.tools, runs); ok && t.Check != "" {
		out = append(out, tool.with(object{tool.param(commandWords): t.Check}))
	}
	return out
}

// writing returns the call that writes the script's file, with the simplest suitable tool.
func (t Task) writing(c conversation, file string) []call {
	if tool, ok := find(c.tools, writes); ok {
		return []call{tool.with(object{tool.param(pathWords): file, tool.param(contentWords): t.Content})}
	}
	if tool, ok := find(c.tools, edits); ok {
		return []call{tool.with(object{
			tool.param(pathWords): file, tool.param(oldWords): "",
			tool.param(newWords): t.Content,
		})}
	}
	if tool, ok := find(c.tools, patches); ok {
		added := "+" + strings.ReplaceAll(strings.TrimSuffix(t.Content, "\n"), "\n", "\n+")
		return []call{tool.with(object{tool.param(patchWords): "*** Begin Patch\n*** Add File: " + t.Write + "\n" +
			added + "\n*** End Patch\n"})}
	}
	if tool, ok := find(c.tools, runs); ok {
		return []call{tool.with(object{tool.param(commandWords): "cat > " + t.Write + " <<'STANDIN'\n" + t.Content +
			"STANDIN"})}
	}
	return nil
}
