package config

import (
	"slices"
	"testing"
)

func TestRouteFits(t *testing.T) {
	plain := Traits{Labels: []string{"Docs", "bug"}, Attempt: 2, Bytes: 500}
	repeated, overflow := plain, plain
	repeated.Repeated, overflow.Overflow = true, true
	for name, row := range map[string]struct {
		route Route
		of    Traits
		want  bool
	}{
		"everything":                   {Route{Attempt: 1}, plain, true},
		"a label in another case":      {Route{Labels: []string{"docs"}, Attempt: 1}, plain, true},
		"one of two labels":            {Route{Labels: []string{"ui", "bug"}, Attempt: 1}, plain, true},
		"no such label":                {Route{Labels: []string{"ui"}, Attempt: 1}, plain, false},
		"this attempt":                 {Route{Attempt: 2}, plain, true},
		"a later attempt":              {Route{Attempt: 3}, plain, false},
		"an issue of this size":        {Route{Attempt: 1, MinBytes: 500}, plain, true},
		"a longer issue":               {Route{Attempt: 1, MinBytes: 501}, plain, false},
		"after the same failure":       {Route{Attempt: 1, After: afterRepeated}, repeated, true},
		"no repeated failure":          {Route{Attempt: 1, After: afterRepeated}, overflow, false},
		"after a context overflow":     {Route{Attempt: 1, After: afterOverflow}, overflow, true},
		"no context overflow":          {Route{Attempt: 1, After: afterOverflow}, plain, false},
		"label fits, attempt does not": {Route{Labels: []string{"bug"}, Attempt: 3}, plain, false},
	} {
		if got := row.route.Fits(row.of); got != row.want {
			t.Errorf("%s: got %v, want %v", name, got, row.want)
		}
	}
}

func TestRouteChangesOnlyCode(t *testing.T) {
	stages := []Stage{
		{Name: "CODE", Run: []string{"x"}, Model: "small", AlternativeModel: "big", Resource: "model.a"},
		{Name: "VALIDATE", Run: []string{"make", "test"}},
	}
	got := Route{Agent: "codex"}.Routed(stages)
	if s := got[0]; s.Agent != "codex" || s.Run != nil || s.Model+s.AlternativeModel+s.Resource != "" {
		t.Errorf("another agent keeps settings of the stage's program: %+v", s)
	}
	if s := (Route{Model: "huge"}).Routed(stages)[0]; s.Model != "huge" || s.AlternativeModel != "big" || s.Run == nil {
		t.Errorf("another model changes more than the model: %+v", s)
	}
	if !slices.Equal(got[1].Run, stages[1].Run) || stages[0].Agent != "" {
		t.Errorf("the route changed other stages: %+v", stages)
	}
}

func TestRouteProblems(t *testing.T) {
	const code = "[[stage]]\nname = \"CODE\"\nrun = [\"x\"]\n"
	for name, row := range map[string]struct{ text, want string }{
		"no table": {"route = 1", "test.toml:1:1: route: got 1, want [[route]] for each route"},
		"an unknown agent": {
			code + "[[route]]\nagent = \"codx\"", `test.toml:5:1: route[0].agent: no agent "codx", did you mean codex?`,
		},
		"no effect": {
			code + "[[route]]\nlabels = [\"a\"]", "test.toml:4:3: route[0].agent: the route has no effect",
		},
		"an unknown key": {
			code + "[[route]]\nlabel = \"a\"",
			"test.toml:5:1: route[0].label: unknown key, did you mean route.labels?",
		},
		"an unknown failure": {
			code + "[[route]]\nafter = \"never\"\nmodel = \"m\"",
			`test.toml:5:1: route[0].after: got "never", want one of`,
		},
		"attempt 0": {
			code + "[[route]]\nattempt = 0\nmodel = \"m\"",
			"test.toml:5:1: route[0].attempt: got 0, want an integer from 1",
		},
	} {
		t.Run(name, func(t *testing.T) { wantProblem(t, row.text, row.want) })
	}
}

// TestRoutesOfProjects checks that a project's routes replace the global ones, and that the text of a configuration
// contains them.
func TestRoutesOfProjects(t *testing.T) {
	c := mustParse(t, `
[[stage]]
name = "CODE"
run = ["x"]
[[route]]
labels = ["docs"]
model = "small"
[[project]]
repository = "a/b"
[[project.route]]
attempt = 2
agent = "codex"
`)
	if got := c.For("x/y").Routes; len(got) != 1 || got[0].String() != "labels docs: model small" {
		t.Errorf("got %v, want the global route", got)
	}
	if got := c.For("a/b").Routes; len(got) != 1 || got[0].String() != "from attempt 2: agent codex" {
		t.Errorf("got %v, want the project's route", got)
	}
	if again := mustParse(t, c.String()); again.String() != c.String() {
		t.Errorf("got\n%s\nwant\n%s", again, c)
	}
}
