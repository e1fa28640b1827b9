package agenttest

import (
	"cmp"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// tool is a tool declared by a request.
type tool struct {
	name, about string
	params      map[string]object // schema of each parameter
	required    []string
}

func newTool(name, about string, schema object) tool {
	t := tool{name: name, about: about, params: map[string]object{}}
	for p, s := range inner(schema, "properties") {
		o, _ := s.(object)
		t.params[p] = o
	}
	list, _ := schema["required"].([]any)
	for _, r := range list {
		if s, ok := r.(string); ok {
			t.required = append(t.required, s)
		}
	}
	return t
}

// Parameter names in lower case, without punctuation.
var (
	pathWords    = []string{"filepath", "path", "absolutepath", "filename", "file", "targetfile", "relativepath"}
	contentWords = []string{"content", "contents", "filetext", "filecontent", "newcontent", "text"}
	oldWords     = []string{"oldstring", "oldstr", "oldtext", "search"}
	newWords     = []string{"newstring", "newstr", "newtext", "replace"}
	patchWords   = []string{"patch", "patchtext", "input"}
	commandWords = []string{"command", "cmd", "script", "commandline"}
)

// param returns the parameter with one of the names, or "".
func (t tool) param(words []string) string {
	for _, w := range words {
		for _, name := range slices.Sorted(maps.Keys(t.params)) { // sorted, so that the choice is stable
			if strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(name)) == w {
				return name
			}
		}
	}
	return ""
}

// verb is the effect of a tool.
type verb int

const (
	other verb = iota
	reads
	writes
	edits
	patches
	runs
)

var readName = regexp.MustCompile(`(?i)read|view|cat|open`)

// verb derives a tool's effect from its parameters.
func (t tool) verb() verb {
	path := t.param(pathWords) != ""
	switch {
	case t.param(commandWords) != "" && !path:
		return runs
	case path && t.param(oldWords) != "" && t.param(newWords) != "":
		return edits
	case path && t.param(contentWords) != "":
		return writes
	case strings.Contains(t.name, "patch") && t.param(patchWords) != "":
		return patches
	case path && readName.MatchString(t.name):
		return reads
	}
	return other
}

// find returns a tool with the effect v.
func find(tools []tool, v verb) (tool, bool) {
	i := slices.IndexFunc(tools, func(t tool) bool { return t.verb() == v })
	if i < 0 {
		return tool{}, false
	}
	return tools[i], true
}

// with returns a call with the given arguments. It adds a filler for each other required parameter.
func (t tool) with(given object) call {
	args := object{}
	for name, v := range given {
		if name != "" {
			args[name] = shaped(t.params[name], v)
		}
	}
	for _, name := range t.required {
		if _, ok := args[name]; !ok {
			args[name] = filler(t.params[name])
		}
	}
	return call{name: t.name, args: args}
}

// shaped turns a command into an argument list if the schema requires an array.
func shaped(schema object, v any) any {
	if s, ok := v.(string); ok && text(schema, "type") == "array" {
		return []string{"sh", "-c", s}
	}
	return v
}

// filler returns the simplest value for a schema.
func filler(schema object) any {
	if list, ok := schema["enum"].([]any); ok && len(list) > 0 {
		return list[0]
	}
	switch strings.ToLower(text(schema, "type")) { // Gemini writes STRING
	case "boolean":
		return false
	case "integer", "number":
		return json.Number("0")
	case "array":
		return []any{}
	case "object":
		return object{}
	}
	return "a step of the fake provider's script"
}

// workdir returns the working directory named in an agent's prompt, or "".
func workdir(text string) string {
	m := folderForm.FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	return strings.TrimRight(cmp.Or(m[1], m[2]), "/.,;:)")
}

var folderForm = regexp.MustCompile("(?i)(?:working (?:in the )?directory(?: is)?|current " +
	"directory|cwd)[^\\n/\\w]{0,20}(/[^\\s<>\"'`]*)|<cwd>(/[^<]*)</cwd>")
