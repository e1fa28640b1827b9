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

// Profile is one row: how an agent CLI is started, and which format it prints. agents.toml and
// docs/specs/agents.md explain the keys.
type Profile struct {
	wire.PlanAgent
	Program  string   `toml:"program"`
	Args     []string `toml:"args"`
	Measured string   `toml:"measured"`
	Why      string   `toml:"why"`
	Try      Try      `toml:"try"`
	traces
}

// Try is how the stand-in for providers takes the place of the agent's own, beside the usual variables of
// addresses and keys. {url} in it is the stand-in's address, without /v1.
type Try struct {
	Model string          `toml:"model"`
	Env   []string        `toml:"env"`   // NAME=value
	Files []wire.PlanFile `toml:"files"` // names are below HOME
}

// Table is all profiles, by name. It is immutable.
type Table struct{ rows []Profile }

// Builtin is the table of this program.
func Builtin() *Table {
	t, err := Parse(&Table{}, embedded)
	if err != nil {
		panic(fmt.Sprint("agent: agents.toml: ", err)) // a mistake in the table, which a test finds
	}
	return t
}

// Names are all names, in order.
func (t *Table) Names() []string {
	names := make([]string, 0, len(t.rows))
	for _, p := range t.rows {
		names = append(names, p.Name)
	}
	return names
}

// Lookup finds a row. It belongs to the table.
func (t *Table) Lookup(name string) (*Profile, error) {
	for i := range t.rows {
		if t.rows[i].Name == name {
			return &t.rows[i], nil
		}
	}
	return nil, fmt.Errorf("agent: no such agent: %.60q, want one of %s", name, strings.Join(t.Names(), ", "))
}

// Parse returns base with a file of profiles over it: a new name adds a row, a known one replaces the keys that
// are given. The error is tomlfile.Faults; then there is no new table.
func Parse(base *Table, data []byte) (*Table, error) {
	file := tomlfile.Parse(data)
	out := &Table{rows: slices.Clone(base.rows)}
	given := map[string]bool{}
	for i, e := range file.Tables("agent") {
		at := tomlfile.Element("agent", i)
		name, _ := e["name"].(string)
		row := Profile{PlanAgent: wire.PlanAgent{
			Name: name, Streams: []string{"stdout"}, Format: "text",
			PromptBytes: DefaultPrompt,
		}}
		known := slices.IndexFunc(out.rows, func(r Profile) bool { return r.Name == name })
		if known >= 0 {
			row = out.rows[known]
		}
		if e == nil || !file.Decode(at, e, &row) {
			continue
		}
		if given[name] {
			file.Fault(at+".name", "%q stands there twice, want each agent once", name)
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
