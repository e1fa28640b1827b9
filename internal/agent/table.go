package agent

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"retake/internal/bus/wire"
	"retake/internal/tomlfile"
)

//go:embed agents.toml
var embedded []byte

// Profile is one row of the table. It describes how to start an agent CLI, and which format the CLI prints.
// agents.toml and docs/specs/agents.md explain the keys.
type Profile struct {
	wire.PlanAgent
	Program  string   `toml:"program"`
	Args     []string `toml:"args"`
	Measured string   `toml:"measured"`
	Why      string   `toml:"why"`
	Try      Try      `toml:"try"`
	traces
}

// Try configures the agent for the fake provider, in addition to the usual variables for addresses and keys. "{url}" is
// replaced by the fake provider's address, without /v1.
type Try struct {
	Model string          `toml:"model"`
	Env   []string        `toml:"env"`   // NAME=value
	Files []wire.PlanFile `toml:"files"` // paths are relative to HOME
}

// Table holds all profiles by name. It is immutable.
type Table struct{ rows []Profile }

// Builtin returns the built-in table.
func Builtin() *Table {
	t, err := Parse(&Table{}, embedded)
	if err != nil {
		// a test would have caught an invalid built-in table
		panic(fmt.Sprint("agent: agents.toml: ", err))
	}
	return t
}

// Names returns all names, sorted.
func (t *Table) Names() []string {
	names := make([]string, 0, len(t.rows))
	for _, p := range t.rows {
		names = append(names, p.Name)
	}
	return names
}

// Lookup returns a profile. The profile belongs to the table, so do not modify it.
func (t *Table) Lookup(name string) (*Profile, error) {
	for i := range t.rows {
		if t.rows[i].Name == name {
			return &t.rows[i], nil
		}
	}
	return nil, fmt.Errorf("agent: unknown agent %.60q, want one of %s", name, strings.Join(t.Names(), ", "))
}

// Parse returns base with the changes from a profile file. A new name adds a row, and a known name overrides only the
// given keys. If the file is invalid, Parse returns a nil table and a tomlfile.Faults.
func Parse(base *Table, data []byte) (*Table, error) {
	file := tomlfile.Parse(data)
	out := &Table{rows: slices.Clone(base.rows)}
	given := map[string]bool{}
	for i, e := range file.Tables("agent") {
		at := tomlfile.Element("agent", i)
		name, _ := e["name"].(string)
		row := Profile{PlanAgent: wire.PlanAgent{
			Name: name, Streams: []string{"stdout"}, Format: "text",
			PromptBytes: DefaultPrompt, ExitSeconds: defaultExit,
		}}
		known := slices.IndexFunc(out.rows, func(r Profile) bool { return r.Name == name })
		if known >= 0 {
			row = out.rows[known]
		}
		before := row.Format
		if e == nil || !file.Decode(at, e, &row) {
			continue
		}
		if _, stated := e["ends_with"]; !stated && row.Format != before {
			row.EndsWith = "" // ends_with belonged to the base's format
		}
		if given[name] {
			file.Fault(at+".name", "duplicate agent %q: define each agent once", name)
		}
		given[name] = true
		row.check(file, at)
		if known >= 0 {
			out.rows[known] = row
		} else {
			out.rows = append(out.rows, row)
		}
	}
	if err := file.Err(); err != nil {
		return nil, err
	}
	slices.SortFunc(out.rows, func(a, b Profile) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}
