package agent

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

//go:embed agents.toml
var embedded []byte

// Profile is one row: how an agent CLI is started, and how it speaks. agents.toml and docs/specs/agents.md explain the keys.
type Profile struct {
	Name        string   `toml:"name"`
	Program     string   `toml:"program"`
	Args        []string `toml:"args"`
	ModelArgs   []string `toml:"model_args"`
	Format      string   `toml:"format"`
	Streams     []string `toml:"streams"`
	Provider    string   `toml:"provider"`
	Keys        []string `toml:"keys"`
	Env         []string `toml:"env"`
	Files       []File   `toml:"files"`
	Exits       []Exit   `toml:"exits"`
	PromptBytes int      `toml:"prompt_bytes"`
	Measured    string   `toml:"measured"`
	Why         string   `toml:"why"`
}

// File is a small file that an agent is given.
type File struct {
	Name    string `toml:"name"`
	Content string `toml:"content"`
}

// Exit says what one exit code means.
type Exit struct {
	Code   int    `toml:"code"`
	Status int    `toml:"status"`
	Means  string `toml:"means"`
}

// Table is all profiles, by name. It does not change.
type Table struct{ rows []Profile }

// Fault is one thing that is wrong in a file of profiles.
type Fault struct {
	Path string // "agent[0].args": the key that it is about; empty: the whole file
	Line int    // of what is no TOML; else 0
	Text string // what is wrong, what is wanted
}

func (f Fault) String() string {
	if f.Path == "" {
		return f.Text
	}
	return f.Path + ": " + f.Text
}

// Builtin is the table of this program.
func Builtin() *Table {
	t, faults := Parse(&Table{}, embedded)
	if len(faults) > 0 {
		panic(fmt.Sprint("agent: agents.toml: ", faults)) // a mistake in the table; a test would have said so
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

// Profiles are all rows, by name.
func (t *Table) Profiles() []Profile { return slices.Clone(t.rows) }

// Lookup finds a row. It belongs to the table.
func (t *Table) Lookup(name string) (*Profile, error) {
	for i := range t.rows {
		if t.rows[i].Name == name {
			return &t.rows[i], nil
		}
	}
	return nil, fmt.Errorf("agent: no such agent: %.60q, want one of %s", name, strings.Join(t.Names(), ", "))
}

// Parse lays a file of profiles over a table: a new name adds a row, a known one replaces the keys that are given. With
// faults there is no new table.
func Parse(base *Table, data []byte) (*Table, []Fault) {
	var file struct {
		Agent []toml.Primitive `toml:"agent"`
	}
	md, err := toml.Decode(string(data), &file)
	if err != nil {
		return nil, []Fault{syntax(err)}
	}
	var faults []Fault
	out := &Table{rows: slices.Clone(base.rows)}
	given := map[string]bool{}
	for i, p := range file.Agent {
		at := fmt.Sprintf("agent[%d]", i)
		var head struct {
			Name string `toml:"name"`
		}
		if err := md.PrimitiveDecode(p, &head); err != nil {
			faults = append(faults, wrongType(at, err))
			continue
		}
		row := Profile{Name: head.Name, Streams: []string{"stdout"}, Format: "text", PromptBytes: defaultPrompt}
		known := slices.IndexFunc(out.rows, func(r Profile) bool { return r.Name == head.Name })
		if known >= 0 {
			row = out.rows[known].clone()
		}
		if err := md.PrimitiveDecode(p, &row); err != nil {
			faults = append(faults, wrongType(at, err))
			continue
		}
		if given[head.Name] {
			faults = append(faults, Fault{Path: at + ".name", Text: fmt.Sprintf("%q stands there twice, want each agent once", head.Name)})
		}
		given[head.Name] = true
		faults = append(faults, row.check(at)...)
		if known >= 0 {
			out.rows[known] = row
		} else {
			out.rows = append(out.rows, row)
		}
	}
	for _, key := range md.Undecoded() {
		faults = append(faults, Fault{Path: key.String(), Text: "unknown key, want " + strings.Join(keys, ", ")})
	}
	if len(faults) > 0 {
		return nil, faults
	}
	slices.SortFunc(out.rows, func(a, b Profile) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// keys are those that a row may have.
var keys = []string{
	"name", "program", "args", "model_args", "format", "streams", "provider", "keys", "env", "files", "exits", "prompt_bytes", "measured", "why",
}

// clone keeps what is decoded into a row from reaching the row that it began as.
func (p Profile) clone() Profile {
	p.Args, p.ModelArgs, p.Streams = slices.Clone(p.Args), slices.Clone(p.ModelArgs), slices.Clone(p.Streams)
	p.Keys, p.Env, p.Files, p.Exits = slices.Clone(p.Keys), slices.Clone(p.Env), slices.Clone(p.Files), slices.Clone(p.Exits)
	return p
}
