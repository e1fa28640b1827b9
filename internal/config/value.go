package config

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/docker/go-units"
)

// set puts a value as TOML gives it into the row's field. It returns what is wrong and what is allowed, or nothing; then
// the field is as it was.
func (r row) set(c *Config, stage int, v any) string {
	switch field := r.field(c, stage).(type) {
	case *bool:
		b, ok := v.(bool)
		if !ok {
			return r.refuse(v)
		}
		*field = b
	case *int:
		n, ok := v.(int64)
		if !ok || !r.inRange(float64(n)) {
			return r.refuse(v)
		}
		*field = int(n)
	case *float64:
		f, ok := number(v)
		if !ok || !r.inRange(f) {
			return r.refuse(v)
		}
		*field = f
	case *time.Duration:
		f, ok := number(v)
		if !ok || !r.inRange(f) {
			return r.refuse(v)
		}
		*field = time.Duration(math.Round(f * float64(time.Second)))
	case *Size:
		s, _ := v.(string)
		n, err := units.RAMInBytes(s)
		if err != nil || !r.inRange(float64(n)) {
			return r.refuse(v)
		}
		*field = Size(n)
	case *string:
		s, ok := v.(string)
		if !ok {
			return r.refuse(v)
		}
		if wrong := r.wrongText(s); wrong != "" {
			return wrong
		}
		*field = s
	case *[]string:
		return r.setList(v, func(list []string) { *field = list })
	case *[]Mount:
		return r.setMounts(v, field)
	case *map[string]string:
		return r.setMap(v, field)
	default:
		panic(fmt.Sprintf("config: %s: no such type of field: %T", r.key, field))
	}
	return ""
}

func (r row) inRange(f float64) bool { return f >= r.min && f <= r.max } // false for NaN

func number(v any) (float64, bool) {
	switch n := v.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

// wrongText checks one text.
func (r row) wrongText(s string) string {
	switch {
	case strings.Contains(s, "\x00"):
		return "a NUL character in it, " + r.wants()
	case len(r.allowed) > 0 && !slices.Contains(r.allowed, s):
		return r.refuse(s)
	case r.check != nil:
		if wrong := r.check(s); wrong != "" {
			return r.shown(s) + ": " + wrong + ", " + r.wants()
		}
	}
	return ""
}

func (r row) setList(v any, put func([]string)) string {
	list, ok := v.([]any)
	if !ok {
		return r.refuse(v)
	}
	texts := make([]string, 0, len(list))
	for i, e := range list {
		s, ok := e.(string)
		if !ok {
			return fmt.Sprintf("element %d: %s", i+1, r.refuse(e))
		}
		if wrong := r.wrongText(s); wrong != "" {
			return fmt.Sprintf("element %d: %s", i+1, wrong)
		}
		texts = append(texts, s)
	}
	put(texts)
	return ""
}

func (r row) setMounts(v any, field *[]Mount) string {
	wrong := ""
	outer := r.setList(v, func(list []string) {
		mounts := make([]Mount, 0, len(list))
		for i, s := range list {
			m, bad := parseMount(s)
			if bad != "" {
				wrong = fmt.Sprintf("element %d: %s: %s, %s", i+1, r.shown(s), bad, r.wants())
				return
			}
			mounts = append(mounts, m)
		}
		*field = mounts
	})
	return outer + wrong
}

func (r row) setMap(v any, field *map[string]string) string {
	table, ok := v.(map[string]any)
	if !ok {
		return r.refuse(v)
	}
	texts := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(table)) {
		s, ok := table[name].(string)
		switch {
		case !ok:
			return fmt.Sprintf("%s: got %s, want a text (in quotes)", r.shown(name), describe(table[name]))
		case strings.Contains(s, "\x00"):
			return r.shown(name) + ": a NUL character in it"
		case secretNames.MatchString(name):
			return r.shown(name) + " looks like the name of a secret, want env_passthrough for those"
		}
		if wrong := r.check(name); wrong != "" {
			return r.shown(name) + ": " + wrong + ", " + r.wants()
		}
		texts[name] = s
	}
	*field = texts
	return ""
}

// refuse says what came and what is wanted.
func (r row) refuse(v any) string {
	if s, ok := v.(string); ok {
		return "got " + r.shown(s) + ", " + r.wants()
	}
	return "got " + describe(v) + ", " + r.wants()
}

// shown quotes a text for a message, unless it may be a secret.
func (r row) shown(s string) string {
	if r.key == "github.token_env" || looksSecret(s) {
		return "the value"
	}
	return shorten(s)
}

const mostOfValue = 60 // characters shown of a value: enough to find it

func shorten(s string) string { return strconv.QuoteToASCII(cut(s, mostOfValue)) }

func describe(v any) string {
	switch v := v.(type) {
	case string:
		return "a text"
	case int64, float64, bool:
		return fmt.Sprint(v)
	case []any, []map[string]any:
		return "a list"
	case map[string]any:
		return "a table"
	case time.Time:
		return "a date"
	}
	return fmt.Sprintf("%T", v)
}

// wants says what is allowed.
func (r row) wants() string {
	if len(r.allowed) > 0 {
		quoted := make([]string, len(r.allowed))
		for i, a := range r.allowed {
			quoted[i] = strconv.Quote(a)
		}
		one := "want one of "
		if _, list := r.field(&Config{Stages: []Stage{{}}}, 0).(*[]string); list {
			one = "want a list, each of it one of "
		}
		return one + strings.Join(quoted, ", ")
	}
	return "want " + r.typeText()
}

// typeText is what the documentation and the messages call the values that a key takes.
func (r row) typeText() string {
	bounds := fmt.Sprintf("from %s to %s", decimal(r.min), decimal(r.max))
	switch r.field(&Config{Stages: []Stage{{}}}, 0).(type) {
	case *bool:
		return "true or false"
	case *int:
		return "an integer " + bounds
	case *float64:
		return "a number " + bounds
	case *time.Duration:
		return "a number of seconds " + bounds
	case *Size:
		return fmt.Sprintf(`a size such as "2GiB", from %s to %s`, Size(r.min), Size(r.max))
	case *[]string:
		return "a list of texts: " + r.want
	case *[]Mount:
		return "a list of " + r.want
	case *map[string]string:
		return `a table { NAME = "value" }: ` + r.want
	}
	if r.want == "" {
		return "a text"
	}
	return r.want
}

func decimal(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// setText puts in a value as flags and the environment have it: texts plain, lists either as TOML or separated by commas,
// tables as TOML or NAME=value separated by commas.
func (r row) setText(c *Config, stage int, text string) string {
	v, ok := r.parseText(r.field(c, stage), text)
	if !ok {
		return r.refuse(text)
	}
	return r.set(c, stage, v)
}

func (r row) parseText(field any, text string) (any, bool) {
	bare := strings.TrimSpace(text)
	switch field.(type) {
	case *bool:
		return bare == "true", bare == "true" || bare == "false"
	case *int:
		n, err := strconv.ParseInt(bare, 10, 64)
		return n, err == nil
	case *float64, *time.Duration:
		f, err := strconv.ParseFloat(bare, 64)
		return f, err == nil
	case *[]string, *[]Mount:
		if strings.HasPrefix(bare, "[") {
			return parseTOML(bare)
		}
		return splitList(bare), true
	case *map[string]string:
		if strings.HasPrefix(bare, "{") {
			return parseTOML(bare)
		}
		return splitPairs(bare)
	}
	if len(text) >= 2 && text[0] == '"' && text[len(text)-1] == '"' { // as in the file, and as our defaults are
		return parseTOML(text)
	}
	return text, true
}

func parseTOML(text string) (any, bool) {
	var doc map[string]any
	if len(text) > maxBytes {
		return nil, false
	}
	if _, wrong := positions([]byte("v = " + text)); wrong != nil {
		return nil, false
	}
	if _, err := toml.Decode("v = "+text, &doc); err != nil || len(doc) != 1 {
		return nil, false
	}
	return doc["v"], true
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
