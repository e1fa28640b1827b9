package recovery

import (
	"slices"
	"strconv"
	"strings"
)

// plainWords are the default values of placeholders.
var plainWords = map[string]string{
	"command": "the stage's command", "provider": "the provider", "variable": "the variable that holds it",
	"image": "the worker image",
	"limit": "the limit", "path": "the file", "paths": "the same files", "program": "a program",
	"agent":   "the agent",
	"renewal": "the provider's page",
	"label":   "that allows it", "pull": "the pull request",
}

// filler fills in the placeholders of a text.
type filler struct {
	values    map[string]string
	holds     func(key string) string
	quote     string // put around untrusted values
	limit     int    // maximum length of a value, in characters
	onlyNames bool   // set if values other than plain names count as missing
}

// nameLetters are the characters of a plain name.
const nameLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/-"

// value returns the placeholder's value as one line that cannot end a code span, or "" if it is missing.
func (f filler) value(name string) string {
	v := strings.Join(strings.Fields(strings.ReplaceAll(f.values[name], "`", "'")), " ")
	if f.onlyNames && (len(v) > f.limit || strings.Trim(v, nameLetters) != "") {
		return ""
	}
	return v
}

// fill replaces {name} with its value. It removes a part in square brackets if any value in it is missing.
func (f filler) fill(text string) string {
	var out strings.Builder
	for text != "" {
		at := strings.IndexAny(text, "[{")
		if at < 0 {
			out.WriteString(text)
			break
		}
		out.WriteString(text[:at])
		closing := "}"
		if text[at] == '[' {
			closing = "]"
		}
		inner, rest, _ := strings.Cut(text[at+1:], closing)
		switch {
		case closing == "}":
			out.WriteString(f.show(inner))
		case f.complete(inner):
			out.WriteString(f.fill(inner))
		}
		text = rest
	}
	return out.String()
}

// complete reports whether every placeholder in a text has a value.
func (f filler) complete(text string) bool {
	for {
		_, after, found := strings.Cut(text, "{")
		if !found {
			return true
		}
		name, rest, _ := strings.Cut(after, "}")
		if f.value(name) == "" {
			return false
		}
		text = rest
	}
}

// show formats a value for use in a sentence. It quotes values that do not come from our tables.
func (f filler) show(name string) string {
	if key, ok := strings.CutPrefix(name, "holds "); ok {
		return f.holds(key)
	}
	value := f.value(name)
	if value == "" {
		return plainWords[name]
	}
	if name == "home" || name == "below" {
		return f.values[name]
	}
	if name == "paths" {
		return f.list(value)
	}
	if name == "limit" {
		return f.quote + value + f.quote + f.values["default"]
	}
	if name == "pull" || slices.ContainsFunc(providers, func(p namedProvider) bool {
		return value == p.name ||
			value == p.keys
	}) {
		return value
	}
	return f.quoted(value)
}

func (f filler) quoted(value string) string {
	if runes := []rune(value); len(runes) > f.limit {
		value = string(runes[:f.limit-1]) + "…"
	}
	return f.quote + value + f.quote
}

// list quotes each path of a conflict. Paths that it omits are in the cause.
func (f filler) list(paths string) string {
	const most = 3
	more := 0
	if at := strings.LastIndex(paths, " and "); at > 0 {
		if n, err := strconv.Atoi(strings.TrimSuffix(paths[at+len(" and "):], " more")); err == nil {
			paths, more = paths[:at], n
		}
	}
	names := strings.Split(paths, ", ")
	more += max(0, len(names)-most)
	for i := range names {
		names[i] = f.quoted(names[i])
	}
	names = names[:min(len(names), most)]
	if more > 0 {
		names = append(names, strconv.Itoa(more)+" more")
	}
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
