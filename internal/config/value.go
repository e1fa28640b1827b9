package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"retake/internal/secrets/redact"
	"retake/internal/tomlfile"
)

// fault describes an invalid value or element.
type fault struct {
	element int // index of the element, or -1 for the whole value
	text    string
}

// set assigns a value decoded from TOML to the row's field. If the value is invalid, it leaves the field unchanged and
// returns the faults, which list the allowed values.
func (r row) set(v any) (faults []fault) {
	wrong, f := "", math.NaN()
	switch n := v.(type) {
	case int64:
		f = float64(n)
	case float64:
		f = n
	}
	inRange := f >= r.min && f <= r.max // false for NaN
	switch to := r.to.(type) {
	case *bool:
		if b, ok := v.(bool); ok {
			*to = b
			return nil
		}
	case *int:
		if n, ok := v.(int64); ok && inRange {
			*to = int(n)
			return nil
		}
	case *float64:
		if inRange {
			*to = f
			return nil
		}
	case *time.Duration:
		if inRange {
			*to = time.Duration(math.Round(f * float64(time.Second)))
			return nil
		}
	case *string:
		if s, ok := v.(string); ok {
			if wrong = r.wrongText(s); wrong == "" {
				*to = s
				return nil
			}
		}
	case *[]string:
		list, ok := v.([]any)
		if s, one := v.(string); one && r.word {
			list, ok = []any{s}, true
		}
		if ok {
			return r.setList(list, to)
		}
	default:
		if table, ok := v.(map[string]any); ok {
			if wrong = r.setAny(table); wrong == "" {
				return nil
			}
		}
	}
	if wrong == "" {
		wrong = r.refuse(v)
	}
	return []fault{{-1, wrong}}
}

// setAny assigns a table to the row's field, and returns a description of any error.
func (r row) setAny(table map[string]any) string {
	switch to := r.to.(type) {
	case *map[string]string:
		return r.setTable(table, to)
	case *map[string]int:
		return r.setNumbers(table, to)
	case *map[string][]string:
		return r.setLists(table, to)
	}
	return r.refuse(table)
}

// wrongText returns a description of the error in s, or "" if s is valid.
func (r row) wrongText(s string) string {
	switch {
	case strings.Contains(s, "\x00"):
		return "it contains a NUL character, want " + r.oneText()
	case len(r.allowed) > 0 && !slices.Contains(r.allowed, s) && !slices.Contains(r.former, s), r.check != nil &&
		!r.check(s):
		return "got " + r.shown(s) + ", want " + r.oneText()
	case r.reason != nil && r.reason(s) != "":
		return r.shown(s) + ": " + r.reason(s) + ", want " + r.oneText()
	}
	return ""
}

func (r row) setList(list []any, to *[]string) (faults []fault) {
	texts := make([]string, len(list))
	for i, e := range list {
		s, ok := e.(string)
		wrong := r.wrongText(s)
		if !ok {
			wrong = "got " + tomlfile.Describe(e) + ", want a string in quotes: " + r.oneText()
		}
		if wrong != "" {
			faults = append(faults, fault{i, fmt.Sprintf("element %d: %s", i+1, wrong)})
		}
		texts[i] = s
	}
	if len(faults) == 0 {
		*to = texts
	}
	return faults
}

func (r row) setTable(table map[string]any, to *map[string]string) string {
	texts := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(table)) {
		s, ok := table[name].(string)
		switch {
		case !ok:
			return fmt.Sprintf("%s: got %s, want a string in quotes", r.shown(name), tomlfile.Describe(table[name]))
		case strings.Contains(s, "\x00"):
			return r.shown(name) + ": it contains a NUL character"
		case redact.IsSecretVariable(name) && !r.secretNames:
			return r.shown(name) + " looks like the name of a secret, want secrets in env_passthrough"
		}
		if wrong := r.wrongText(name); wrong != "" {
			return wrong
		}
		texts[name] = s
	}
	*to = texts
	return ""
}

// setNumbers assigns a table of numbers. It applies check to the names, and min and max to the numbers.
func (r row) setNumbers(table map[string]any, to *map[string]int) string {
	numbers := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(table)) {
		if wrong := r.wrongText(name); wrong != "" {
			return wrong
		}
		n, ok := table[name].(int64)
		if !ok || float64(n) < r.min || float64(n) > r.max {
			return fmt.Sprintf("%s: got %s, want a whole number from %s to %s", r.shown(name),
				tomlfile.Describe(table[name]), decimal(r.min), decimal(r.max))
		}
		numbers[name] = int(n)
	}
	*to = numbers
	return ""
}

// setLists assigns a table of lists of globs. It applies check to the names, and reason to the globs.
func (r row) setLists(table map[string]any, to *map[string][]string) string {
	names, globs := row{key: r.key, check: r.check, want: r.want}, row{key: r.key, reason: r.reason, want: globWant}
	lists := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(table)) {
		if wrong := names.wrongText(name); wrong != "" {
			return wrong
		}
		list, ok := table[name].([]any)
		if !ok {
			return fmt.Sprintf("%s: got %s, want a list of globs", r.shown(name), tomlfile.Describe(table[name]))
		}
		var texts []string
		if faults := globs.setList(list, &texts); len(faults) > 0 {
			return r.shown(name) + ": " + faults[0].text
		}
		lists[name] = texts
	}
	*to = lists
	return ""
}

// refuse returns a message with the invalid value and the allowed values.
func (r row) refuse(v any) string {
	if s, ok := v.(string); ok {
		return "got " + r.shown(s) + ", want " + r.wants()
	}
	return "got " + tomlfile.Describe(v) + ", want " + r.wants()
}

// shown quotes a string for a message, unless it might be a secret.
func (r row) shown(s string) string {
	if strings.HasSuffix(r.key, "_token_env") || r.key == "github.token_env" || r.key == "github.webhook_secret_env" ||
		redact.HasCredential(s) {
		return "the value"
	}
	return shorten(s)
}

const mostOfValue = 60 // maximum length of a value quoted in a message, in characters

func shorten(s string) string { return strconv.QuoteToASCII(cut(s, mostOfValue)) }

// wants describes the allowed values, for messages and the documentation.
func (r row) wants() string {
	bounds := fmt.Sprintf(" from %s to %s", decimal(r.min), decimal(r.max))
	switch r.to.(type) {
	case *bool:
		return "true or false"
	case *int:
		return "an integer" + bounds
	case *float64:
		return "a number" + bounds
	case *time.Duration:
		return "a number of seconds" + bounds
	case *[]string:
		if r.word {
			return r.oneText()
		}
		return "a list; each item is " + r.oneText()
	case *map[string]string:
		return `a table { NAME = "value" }; each NAME is ` + r.oneText()
	case *map[string]int:
		return `a table { "label" = 1 } of whole numbers` + bounds + ", each label: " + r.oneText()
	case *map[string][]string:
		return `a table { "label" = ["glob"] }, each label: ` + r.oneText()
	}
	return r.oneText()
}

// oneText describes the allowed strings for the value, an element of the list, or a name in the table.
func (r row) oneText() string {
	if len(r.allowed) > 0 {
		return `one of "` + strings.Join(r.allowed, `", "`) + `"`
	}
	return r.want
}

func decimal(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// setText parses a value from flags and the environment. A list is either TOML or comma-separated. A table is TOML or,
// if its values are strings, comma-separated NAME=value pairs.
func (r row) setText(text string) []fault {
	v, ok := r.parseText(text)
	if !ok {
		v = text
	}
	return r.set(v)
}

func (r row) parseText(text string) (v any, ok bool) {
	bare := strings.TrimSpace(text)
	var err error
	switch r.to.(type) {
	case *bool:
		return bare == "true", bare == "true" || bare == "false"
	case *int:
		v, err = strconv.ParseInt(bare, 10, 64)
		return v, err == nil
	case *float64, *time.Duration:
		v, err = strconv.ParseFloat(bare, 64)
		return v, err == nil
	case *[]string:
		if !strings.HasPrefix(bare, "[") && (!r.word || !strings.HasPrefix(bare, `"`)) {
			return splitList(bare), true
		}
	case *map[string]string:
		if !strings.HasPrefix(bare, "{") {
			return splitPairs(bare)
		}
	case *map[string]int, *map[string][]string: // only as a TOML table
	case *string:
		if len(text) < 2 || text[0] != '"' || text[len(text)-1] != '"' { // quoted text is TOML, as in the file
			return text, true
		}
	}
	v, ok = tomlfile.Parse([]byte("v = " + bare)).Values["v"]
	return v, ok
}

func splitList(text string) []any {
	list := []any{}
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}

func splitPairs(text string) (any, bool) {
	table := map[string]any{}
	for _, part := range splitList(text) {
		name, value, ok := strings.Cut(part.(string), "=")
		if !ok {
			return nil, false
		}
		table[name] = value
	}
	return table, true
}

// literal returns the row's value as TOML, which shares strings, lists, numbers and booleans with JSON.
func (r row) literal() string {
	switch v := r.to.(type) {
	case *time.Duration:
		return decimal(v.Seconds())
	case *float64:
		return decimal(*v)
	case *map[string]string:
		pairs := []string{}
		for _, name := range slices.Sorted(maps.Keys(*v)) {
			value := (*v)[name]
			pairs = append(pairs, name+" = "+row{to: &value}.literal())
		}
		return "{" + strings.Join(pairs, ", ") + "}"
	case *map[string]int:
		pairs := []string{}
		for _, name := range slices.Sorted(maps.Keys(*v)) {
			pairs = append(pairs, row{to: &name}.literal()+" = "+strconv.Itoa((*v)[name]))
		}
		return "{" + strings.Join(pairs, ", ") + "}"
	case *map[string][]string:
		pairs := []string{}
		for _, name := range slices.Sorted(maps.Keys(*v)) {
			list := (*v)[name]
			pairs = append(pairs, row{to: &name}.literal()+" = "+row{to: &list}.literal())
		}
		return "{" + strings.Join(pairs, ", ") + "}"
	case *[]string:
		if r.word && len(*v) == 1 {
			return row{to: &(*v)[0]}.literal()
		}
		elements := []string{}
		for _, s := range *v {
			elements = append(elements, row{to: &s}.literal())
		}
		return "[" + strings.Join(elements, ", ") + "]"
	}
	var b strings.Builder
	to := json.NewEncoder(&b)
	to.SetEscapeHTML(false)
	_ = to.Encode(r.to) // cannot fail for these types
	// TOML requires an escape for DEL, JSON does not
	return strings.ReplaceAll(strings.TrimSpace(b.String()), "\x7f", `\u007f`)
}
