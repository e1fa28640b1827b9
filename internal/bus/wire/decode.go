package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
)

// jsonSpace is the white space that JSON allows around values.
const jsonSpace = " \t\r\n"

// readObject reads exactly one JSON object and keeps numbers as json.Number. Errors begin with where, the path of the
// object within the message. The path is empty for the whole message.
func readObject(data []byte, where string) (map[string]any, *Malformed) {
	if len(bytes.Trim(data, jsonSpace)) == 0 {
		return nil, malformed(CauseNotJSON, "the message is empty")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, malformed(CauseNotJSON, "%v", err)
	}
	if len(bytes.Trim(data[d.InputOffset():], jsonSpace)) > 0 {
		return nil, malformed(CauseNotJSON, "more than one JSON value")
	}
	object, ok := v.(map[string]any)
	switch {
	case ok:
		return object, nil
	case where == "":
		return nil, malformed(CauseNotAnEnvelope, "want an object, got %s", kindOf(v))
	default:
		return nil, malformed(CauseWrongType, "%s: want an object, got %s", where, kindOf(v))
	}
}

// rowFor finds the row for an envelope's schema_version and message_type.
func rowFor(tree map[string]any) (*MessageRow, *Malformed) {
	schema, m := text(tree, "schema_version")
	if m != nil {
		return nil, m
	}
	if !strings.HasPrefix(schema, schemaName) {
		return nil, malformed(CauseNotAnEnvelope, "schema_version: want %s, got %s", SchemaVersion, brief(schema))
	}
	if schema != SchemaVersion {
		return nil, malformed(CauseUnknownVersion, "schema_version: want %s, got %s", SchemaVersion, brief(schema))
	}
	kind, m := text(tree, "message_type")
	if m != nil {
		return nil, m
	}
	if row, known := rowOf(kind); known {
		return row, nil
	}
	if base, _, versioned := strings.Cut(kind, ".v"); versioned {
		for i := range messages {
			if name, _, _ := strings.Cut(messages[i].Type, ".v"); name == base {
				return nil, malformed(CauseUnknownVersion, "message_type: want %s, got %s", messages[i].Type,
					brief(kind))
			}
		}
	}
	return nil, malformed(CauseUnknownType, "unknown message_type %s", brief(kind))
}

// text reads a required string of the envelope.
func text(tree map[string]any, name string) (string, *Malformed) {
	v, present := tree[name]
	if !present || v == nil {
		return "", malformed(CauseMissingField, "%s is missing", name)
	}
	s, ok := v.(string)
	if !ok {
		return "", malformed(CauseWrongType, "%s: want a string, got %s", name, kindOf(v))
	}
	return s, nil
}

// decodeInto decodes data into a Go value and checks the rules. tree must be the parsed data. decodeInto checks the
// rules in tree and again in the decoded value. Without the second check, a field name in another case could evade a
// rule, because encoding/json ignores case.
func decodeInto(fields []Field, tree map[string]any, data []byte, where string, into any) *Malformed {
	if m := check(fields, tree, where); m != nil {
		return m
	}
	if err := json.Unmarshal(data, into); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return malformed(CauseWrongType, "%s: want %s, got %s", join(where, wrong.Field),
				wantedKind(wrong.Type.String()), wrong.Value)
		}
		return malformed(CauseWrongType, "%s: %v", join(where, "a field"), err)
	}
	understood, err := json.Marshal(into)
	if err != nil {
		return malformed(CauseBadValue, "%s: %v", where, err)
	}
	again, m := readObject(understood, where)
	if m != nil {
		return m
	}
	return check(fields, again, where)
}

// wantedKind returns the JSON type for a Go type, with its article, for errors.
func wantedKind(goType string) string {
	switch strings.TrimLeft(goType, "*u") {
	case "int", "int64":
		return "an integer"
	case "float64":
		return "a number"
	case "string", "wire.Role":
		return "a string"
	case "bool":
		return "a boolean"
	}
	if strings.HasPrefix(goType, "[]") || strings.HasPrefix(goType, "wire.List") {
		return "an array"
	}
	return "an object"
}
