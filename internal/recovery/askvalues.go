package recovery

import (
	"slices"
	"strconv"
	"strings"

	"retake/internal/recovery/circumstances"
	"retake/internal/recovery/plaintext"
)

// values returns the values of the placeholders. An empty value counts as missing.
func (c *Case) values() map[string]string {
	name, renewal := provider(c.Happened.Provider())
	limit := c.Happened.Limit()
	values := map[string]string{
		"command": plaintext.CommandLine(c.Happened.Command()), "provider": name, "renewal": renewal,
		"variable": c.variables(), "image": c.Image, "limit": limit.Value,
		"file": c.File, "path": c.path(), "paths": c.path(), "label": c.label(), "pull": c.pull(),
		"program": c.missing(), "agent": c.agent(), "home": c.home(),
	}
	if limit.SetBy == circumstances.Default {
		values["default"] = " (the default)"
	}
	return values
}

// longestImage is the maximum length of an image's name in a question.
const longestImage = 80

// home returns a phrase for where workers find their programs.
func (c *Case) home() string {
	switch {
	case c.Happened.Runtime() == onMachine:
		return "on the director's machine"
	case c.Image != "" && len(c.Image) <= longestImage:
		return "in the image `" + strings.ReplaceAll(c.Image, "`", "'") + "`"
	}
	return "in the worker image"
}

// agent returns the name of the agent's program, or "" if the stage has no agent.
func (c *Case) agent() string {
	if c.Stage != "CODE" {
		return ""
	}
	return base(c.Happened.Program())
}

// mostVariables is the maximum number of variables in a question. If a program has more, any of them may be to blame,
// so naming two would mislead.
const mostVariables = 2

// variables returns the variables that may hold the credential, or "" if there are too many candidates. It prefers
// variables named in the cause to the first ones in the agent's profile.
func (c *Case) variables() string {
	names := c.Happened.Credentials()
	if named := slices.DeleteFunc(slices.Clone(names),
		func(name string) bool { return !strings.Contains(c.Cause, name) }); len(named) > 0 {
		names = named
	}
	if len(names) > mostVariables && c.Happened.Profile() == "" {
		return ""
	}
	return strings.Join(names[:min(len(names), mostVariables)], " or ")
}

func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// path returns the first path in a cause written by our own rules or by git, or "".
func (c *Case) path() string {
	text, ok := strings.CutPrefix(c.Cause, NotPushed)
	if ok {
		text, _, _ = strings.Cut(text, ": ")
		if at := strings.LastIndexByte(text, ':'); at > 0 && isNumber(text[at+1:]) {
			text = text[:at]
		}
		return text
	}
	// Only journals of earlier versions contain the third text.
	for _, before := range []string{"this work conflict in ", "Merge conflict in ", "don't go together in "} {
		if _, text, ok = strings.Cut(c.Cause, before); ok {
			text, _, _ = strings.Cut(text, " (")
			return strings.TrimSpace(text)
		}
	}
	return ""
}

// In a cause, labelBefore and labelAfter enclose the label that would allow the change. Journals of earlier versions
// have labelAfterOld after the label.
const labelBefore, labelAfter, labelAfterOld = "(the label \"", "\" allows it", "\" lets it through"

// label returns the label that would allow the change, or "".
func (c *Case) label() string {
	_, text, _ := strings.Cut(c.Cause, labelBefore)
	for _, after := range []string{labelAfter, labelAfterOld} {
		if label, _, ok := strings.Cut(text, after); ok {
			return label
		}
	}
	return ""
}

// pull returns a reference to the pull request, which GitHub shows as a link, or "".
func (c *Case) pull() string {
	if c.Pull <= 0 {
		return ""
	}
	return pullRequest + strconv.Itoa(c.Pull)
}

const pullRequest = "pull request #"

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// missing returns the missing program, server or module after tool_not_found. For a stage's program, it returns
// the configured name.
func (c *Case) missing() string {
	if c.Reason != ToolNotFound {
		return ""
	}
	if name := serverIn(c.Cause); name != "" {
		return name
	}
	if name := moduleIn(c.Cause); name != "" {
		return name
	}
	program := c.Happened.Program()
	if name := missingIn(c.Cause); name != "" && base(name) != base(program) {
		return name
	}
	return program
}

// serverIn returns the MCP server that an agent could not find, or "".
func serverIn(cause string) string {
	_, text, ok := strings.Cut(cause, "MCP server ")
	if text, _, ended := strings.Cut(text, " is not registered"); ok && ended {
		return strings.Trim(text, `"'`)
	}
	_, text, ok = strings.Cut(cause, "mcp__")
	if text, _, ended := strings.Cut(text, "__"); ok && ended {
		return text
	}
	return ""
}

// moduleIn returns the module that Node.js could not find, or "".
func moduleIn(cause string) string {
	_, text, ok := strings.Cut(cause, "Cannot find module '")
	text, _, ended := strings.Cut(text, "'")
	if !ok || !ended {
		return ""
	}
	return text
}

// missingIn returns the missing program in an error from a shell, from Go or from the worker, or "".
func missingIn(cause string) string {
	if _, text, ok := strings.Cut(cause, "no such program: "); ok { // the worker's message
		text, _, _ = strings.Cut(text, ": ")
		text, _, _ = strings.Cut(text, " is ")
		return strings.Trim(text, `"`)
	}
	if text, _, ok := strings.Cut(cause, `": executable file not found`); ok {
		return text[strings.LastIndexByte(text, '"')+1:]
	}
	for _, after := range []string{
		": command not found", ": not found", ": No such file or directory",
		": no such file or directory",
	} {
		if text, _, ok := strings.Cut(cause, after); ok {
			text = text[strings.LastIndex(text, ": ")+1:]
			return strings.Trim(strings.TrimPrefix(strings.TrimSpace(text), "fork/exec "), `"'`)
		}
	}
	return ""
}

// providers lists the usual names of providers and the pages where people create keys.
var providers = []namedProvider{
	{"anthropic", "Anthropic", "https://console.anthropic.com/settings/keys"},
	{"openai", "OpenAI", "https://platform.openai.com/api-keys"},
	{"google", "Google", "https://aistudio.google.com/apikey"},
	{"openrouter", "OpenRouter", "https://openrouter.ai/settings/keys"},
	{"github", "GitHub", "https://github.com/settings/tokens"},
}

type namedProvider struct{ id, name, keys string }

func provider(id string) (name, keys string) {
	for _, p := range providers {
		if strings.EqualFold(p.id, id) {
			return p.name, p.keys
		}
	}
	return id, ""
}
