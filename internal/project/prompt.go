package project

import (
	"regexp"
	"slices"
	"strings"

	"retake/internal/config"
)

// PromptFile is the path of a converted prompt in the repository.
const PromptFile = ".github/retake-prompt.md"

// PromptKey permits repositories to have a PromptFile, as an element of projects.allow.
const PromptKey = "prompt"

// Allowed lists the possible elements of projects.allow.
func Allowed() []string {
	all := config.Keys()
	return all[slices.IndexFunc(all, func(k config.Key) bool { return k.Name == "projects.allow" })].Values
}

// fields maps the fields of other orchestrators' templates to the fields of Retake's templates.
var fields = map[string]string{
	"issue.identifier": ".Issue.Key", "issue.title": ".Issue.Title", "issue.description": ".Issue.Body",
	"issue.body": ".Issue.Body", "issue.url": ".Issue.URL", "issue.labels": ".Issue.Labels",
	"issue.number": ".Issue.Number", "attempt": ".Attempt",
}

var (
	action = regexp.MustCompile(`\{\{-?\s*(.*?)\s*-?\}\}|\{%-?\s*(.*?)\s*-?%\}`)
	branch = regexp.MustCompile(`^if\s+(not\s+)?(\S+)$`)
)

// prompt converts the body, if this version supports prompts and the template can be converted.
func (c *conversion) prompt(body string) {
	if body == "" {
		return
	}
	at := leaf{path: "body", line: 1}
	if !slices.Contains(Allowed(), PromptKey) {
		c.leave(at, "Retake writes the prompt; put lasting instructions into the agent's own file, such as AGENTS.md")
		return
	}
	text, unknown := template(body)
	if len(unknown) > 0 {
		c.leave(at, "the prompt uses what Retake's templates do not have: "+short(strings.Join(unknown, ", ")))
		return
	}
	c.Prompt = text + "\n"
}

// template converts a Liquid or Go template. It returns the actions without a counterpart.
func template(body string) (text string, unknown []string) {
	text = action.ReplaceAllStringFunc(body, func(whole string) string {
		m := action.FindStringSubmatch(whole)
		inner := m[1] + m[2]
		if to, ok := convertAction(inner); ok {
			return "{{ " + to + " }}"
		}
		if !slices.Contains(unknown, inner) {
			unknown = append(unknown, inner)
		}
		return whole
	})
	return text, unknown
}

func convertAction(inner string) (to string, ok bool) {
	switch inner {
	case "else":
		return "else", true
	case "end", "endif":
		return "end", true
	}
	if m := branch.FindStringSubmatch(inner); m != nil {
		field, ok := fields[strings.TrimPrefix(m[2], ".")]
		if field == ".Attempt" { // other orchestrators number only repeated attempts
			field = ".Failures"
		}
		return "if " + m[1] + field, ok
	}
	to, ok = fields[strings.TrimPrefix(inner, ".")]
	return to, ok
}
