package config

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"retake/internal/bus/wire"
)

// node is a part of a JSON Schema.
type node = map[string]any

// ContractSchema returns the JSON Schema of a contract, for editors. It is looser than Contract: it does not check the
// form of strings, rules between keys, or the operator's limits.
func ContractSchema() []byte {
	sections := map[string]node{}
	for _, r := range allRows {
		section, name := cutLast(r.key)
		if projectKeys[r.key] != byBoth && projectKeys[section] != byBoth {
			continue
		}
		if sections[section] == nil {
			sections[section] = node{}
		}
		if r.key == "stage.paid" { // see countsCalls
			r.allowed = []string{wire.PaidAuto, wire.PaidAlways}
		}
		sections[section][name] = r.schema()
	}
	properties := node{}
	for section, keys := range sections {
		table := node{"type": "object", "properties": keys, "additionalProperties": false}
		if section == "stage" {
			table["required"] = []string{"name"}
		}
		if projectKeys[section] == byBoth { // a list of tables
			properties[section] = node{"type": "array", "items": table}
			continue
		}
		properties[section] = table
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	_ = e.Encode(node{ // cannot fail for these types
		"$schema": "http://json-schema.org/draft-07/schema#", "$id": "contract.v1.json", "title": "contract.v1",
		"description": "A repository's contract with Retake: " + strings.Join(ContractFiles, " or ") + ".",
		"type":        "object", "properties": properties, "additionalProperties": false,
	})
	return out.Bytes()
}

// schema describes the row's values.
func (r row) schema() node {
	n := node{"description": r.doc}
	text := node{"type": "string"}
	if len(r.allowed) > 0 {
		text["enum"] = r.allowed
	}
	span := func(kind string) {
		n["type"], n["minimum"], n["maximum"] = kind, r.min, r.max
	}
	switch r.to.(type) {
	case *bool:
		n["type"] = "boolean"
	case *int:
		span("integer")
	case *float64, *time.Duration:
		span("number")
	case *string:
		n["type"] = text["type"]
		if len(r.allowed) > 0 {
			n["enum"] = r.allowed
		}
	case *[]string:
		n["type"], n["items"] = "array", text
	default:
		n["type"], n["additionalProperties"] = "object", r.elements()
	}
	if def, ok := r.parseText(r.def); ok && r.def != "" && r.def != protectedDefault {
		n["default"] = def
	}
	return n
}

// elements describes the values of a table.
func (r row) elements() node {
	switch r.to.(type) {
	case *map[string]int:
		return node{"type": "integer", "minimum": r.min, "maximum": r.max}
	case *map[string][]string:
		return node{"type": "array", "items": node{"type": "string"}}
	}
	return node{"type": "string"}
}
