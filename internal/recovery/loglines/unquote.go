package loglines

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxQuotes is the maximum depth of nested quotations to expand.
const maxQuotes = 4

// unquote returns the text of JSON strings in a line. The line may be a string, an object with string fields, or words
// followed by a string. Otherwise, ok is false.
func unquote(line string) (text string, ok bool) {
	if first := strings.TrimLeft(line, " "); first == "" || ' ' < first[0] && first[0] < utf8.RuneSelf &&
		first[0] != '"' && strings.IndexByte(line, '\\') < 0 {
		return "", false // the usual case
	}
	bare := strings.TrimSpace(line)
	if len(bare) < 2 || strings.IndexByte(bare, '\\') < 0 && bare[0] != '"' {
		return "", false
	}
	switch bare[0] {
	case '"':
		var whole string
		if json.Unmarshal([]byte(bare), &whole) == nil {
			return whole, true
		}
	case '{':
		return fieldsText(bare)
	case '[':
		return "", false
	}
	if strings.Contains(bare, `{\"`) || strings.Count(bare, `\n`) > 1 && !strings.Contains(bare, `{"`) {
		return unescape(bare), true
	}
	return "", false
}

// fieldsText returns the string fields of an object if at least one of them has multiple lines. It skips objects with a
// type, an error or an event.
func fieldsText(line string) (text string, ok bool) {
	if !strings.Contains(line, `\n`) || strings.Contains(line, `"type"`) || strings.Contains(line, `"error"`) ||
		strings.Contains(line, `"event"`) {
		return "", false
	}
	var fields map[string]any
	if json.Unmarshal([]byte(line), &fields) != nil {
		return "", false
	}
	var all strings.Builder
	for _, k := range slices.Sorted(maps.Keys(fields)) {
		if s, is := fields[k].(string); is && s != "" {
			all.WriteString(strings.TrimSuffix(s, "\n") + "\n")
			ok = ok || strings.Contains(s, "\n")
		}
	}
	return all.String(), ok
}

// unescape replaces the escapes of a JSON string, which may be truncated.
func unescape(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var whole string
	if json.Unmarshal([]byte(`"`+s+`"`), &whole) == nil {
		return whole
	}
	return escapes.Replace(s)
}

var escapes = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\/`, `/`, `\n`, "\n", `\r`, "", `\t`, "\t", `\u003c`, "<",
	`\u003e`, ">", `\u0026`, "&", `\u001b`, "")
