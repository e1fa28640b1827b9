package loglines

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Field names of loggers.
var (
	levelKeys   = []string{"level", "@level", "log.level", "lvl", "levelname", "severity", "loglevel"}
	messageKeys = []string{"msg", "message", "@message", "event", "text"}
	errorKeys   = []string{"error", "err", "exception", "cause"}
	placeKeys   = []string{
		"ts", "t", "time", "timestamp", "@timestamp", "caller", "source", "logger", "name", "module",
		"@module", "pid", "hostname", "v", "thread",
	}
)

// parseJSON parses one object that states a level and a message.
func parseJSON(line string) (string, Level, bool) {
	if !strings.Contains(line, "level") && !strings.Contains(line, `"lvl"`) && !strings.Contains(line, `"severity"`) {
		return line, None, false
	}
	if !slices.ContainsFunc(levelKeys, func(k string) bool { return strings.Contains(line, `"`+k+`"`) }) {
		return line, None, false
	}
	var fields map[string]any
	if !json.Valid([]byte(line)) {
		return line, None, false
	}
	decoder := json.NewDecoder(strings.NewReader(line))
	decoder.UseNumber() // keep a time in seconds unchanged
	if decoder.Decode(&fields) != nil {
		return line, None, false
	}
	level := None
	for _, k := range levelKeys {
		switch v := fields[k].(type) {
		case string:
			level = max(level, levelOf(v))
		case json.Number:
			if n, err := v.Float64(); err == nil {
				level = max(level, levelOfNumber(n))
			}
		}
	}
	message, said := "", false
	for _, k := range messageKeys {
		if s, ok := fields[k].(string); ok && !said {
			message, said = s, true
			delete(fields, k)
		}
	}
	if level == None || !said && fields["error"] == nil && fields["err"] == nil {
		return line, None, false
	}
	for _, k := range errorKeys {
		if s, ok := fields[k].(string); ok {
			message = joined(message, s)
			delete(fields, k)
		}
	}
	return withRest(message, fields), level, true
}

// joined appends the error to the message.
func joined(message, err string) string {
	switch {
	case message == "" || strings.Contains(err, message):
		return err
	case err == "" || strings.Contains(message, err):
		return message
	}
	return strings.TrimRight(message, " :\n") + ": " + err
}

// withRest adds a logger's other fields on a separate line. If any of them is an object, the line is JSON, because an
// object may be a provider's error.
func withRest(message string, fields map[string]any) string {
	for _, k := range slices.Concat(levelKeys, placeKeys) {
		delete(fields, k)
	}
	var pairs []string
	nested := false
	for _, k := range slices.Sorted(maps.Keys(fields)) {
		switch v := fields[k].(type) {
		case map[string]any:
			nested = true
		default:
			pair := fmt.Sprintf("%s=%v", k, v)
			pairs = append(pairs, strings.TrimPrefix(pair, "=")) // words after the pairs are stored under an empty key
		}
	}
	if nested {
		data, _ := json.Marshal(fields)
		return strings.TrimSuffix(message, "\n") + "\n" + string(data)
	}
	if len(pairs) == 0 {
		return message
	}
	return strings.TrimSuffix(message, "\n") + "\n" + strings.Join(pairs, " ")
}

// parseLogfmt parses key-value pairs that state a level and a message.
func parseLogfmt(line string) (string, Level, bool) {
	if !strings.Contains(line, "level=") && !strings.Contains(line, "lvl=") {
		return line, None, false
	}
	fields, said := map[string]any{}, false
	for rest := line; rest != ""; {
		key, after, ok := strings.Cut(rest, "=")
		if !ok || key == "" || strings.ContainsAny(key, " \t\"") {
			if len(fields) < 2 {
				return line, None, false
			}
			fields[""] = rest // words after the pairs
			break
		}
		fields[key], rest = logfmtValue(after)
		said = said || slices.Contains(messageKeys, key)
	}
	level, _ := fields["level"].(string)
	if level == "" {
		level, _ = fields["lvl"].(string)
	}
	if !said || levelOf(level) == None {
		return line, None, false
	}
	message := ""
	for _, k := range slices.Concat(messageKeys, errorKeys) {
		if s, ok := fields[k].(string); ok {
			message = joined(message, s)
			delete(fields, k)
		}
	}
	return withRest(message, fields), levelOf(level), true
}

// logfmtValue returns the value at the start of s, and the text after the blank that follows it.
func logfmtValue(s string) (value, rest string) {
	if !strings.HasPrefix(s, `"`) {
		value, rest, _ = strings.Cut(s, " ")
		return value, strings.TrimLeft(rest, " ")
	}
	end := 1
	for end < len(s) && s[end] != '"' {
		if s[end] == '\\' {
			end++
		}
		end++
	}
	end = min(end, len(s))
	return unescape(s[1:end]), strings.TrimLeft(s[min(end+1, len(s)):], " ")
}
