package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
)

// jsonSpace is what JSON allows around values.
const jsonSpace = " \t\r\n"

// objectOf reads exactly one JSON object, numbers kept as written.
func objectOf(data []byte) (map[string]any, *Malformed) {
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
		return nil, malformed(CauseNotJSON, "there is more than one JSON value")
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, malformed(CauseNotAnEnvelope, "want an object, got %s", kindOf(v))
	}
	return object, nil
}

// objectAt is objectOf for a member that must be an object.
func objectAt(data []byte, where string) (map[string]any, *Malformed) {
	object, m := objectOf(data)
	if m != nil && m.Cause == CauseNotAnEnvelope {
		return nil, malformed(CauseWrongType, "%s: %s", where, m.Detail)
	}
	return object, m
}

// rowFor finds the row of an envelope by its versions.
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
				return nil, malformed(CauseUnknownVersion, "message_type: want %s, got %s", messages[i].Type, brief(kind))
			}
		}
	}
	return nil, malformed(CauseUnknownType, "message_type %s is not in the table", brief(kind))
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

// unmarshal turns encoding/json's error into one that names the field.
func unmarshal(data []byte, into any, where string) *Malformed {
	err := json.Unmarshal(data, into)
	if err == nil {
		return nil
	}
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return malformed(CauseWrongType, "%s: want %s, got %s", join(where, wrong.Field), goKind(wrong.Type.String()), wrong.Value)
	}
	return malformed(CauseWrongType, "%s: %v", join(where, "a field"), err)
}

// goKind names a Go type as its JSON type.
func goKind(goType string) string {
	goType = strings.TrimLeft(goType, "*")
	switch {
	case strings.HasPrefix(goType, "[]"):
		return "an array"
	case strings.HasPrefix(goType, "int"), strings.HasPrefix(goType, "uint"):
		return "an integer"
	case strings.HasPrefix(goType, "float"):
		return "a number"
	case goType == "string", goType == "wire.Role":
		return "a string"
	case goType == "bool":
		return "a boolean"
	default:
		return "an object"
	}
}
