package config

import (
	"fmt"
	"slices"
	"strings"

	"retake/internal/tomlfile"
	"retake/internal/tomlfile/spelling"
)

// Route changes the agent or the model of the CODE stage for some attempts. The first route that fits an attempt is
// used.
type Route struct {
	Labels   []string // fits issues with at least one of them, regardless of case; empty fits all issues
	Attempt  int      // fits attempts from this number on
	MinBytes int      // minimum size of the text
	After    string   // afterRepeated, afterOverflow, or "" for all attempts

	Agent            string // "" keeps the stage's agent or program
	Model            string // "" keeps the stage's model, unless Agent is set
	AlternativeModel string
}

// Values of Route.After.
const (
	afterRepeated = "repeated_failure" // the last two attempts failed in the same way
	afterOverflow = "context_overflow" // the last attempt exceeded the model's context window
)

// Traits are the properties of an attempt on which routes depend.
type Traits struct {
	Labels   []string
	Attempt  int
	Bytes    int  // size of the text
	Repeated bool // see afterRepeated
	Overflow bool // see afterOverflow
}

// routeKeys returns the keys of one [[route]].
func routeKeys(r *Route) []row {
	return []row{
		{
			key: "route.labels", def: "[]", check: labelForm.MatchString, want: labelWant,
			doc: "Labels. The route fits an issue with at least one of them. If empty, it fits all issues.",
			to:  &r.Labels,
		},
		{
			key: "route.attempt", def: "1", unit: "attempts", min: 1, max: 1000,
			doc: "First attempt that the route fits.", to: &r.Attempt,
		},
		{
			key: "route.min_bytes", def: "0", unit: "bytes", min: 0, max: 1 << 20,
			doc: "Minimum size of the issue's title and text.", to: &r.MinBytes,
		},
		{
			key: "route.after", def: `""`, allowed: []string{"", afterRepeated, afterOverflow},
			doc: "Condition on failures: the last two attempts failed in the same way, or the last one exceeded " +
				"the context window. If empty, there is no condition.", to: &r.After,
		},
		{
			key: "route.agent", def: `""`, check: agentForm.MatchString, want: "the name of an agent profile",
			doc: "Agent for CODE. If empty, the stage's own agent or program runs.", to: &r.Agent,
		},
		{
			key: "route.model", def: `""`, check: modelForm.MatchString, want: modelWant,
			doc: "Model for CODE. If empty, the stage's model is used, or the default of the route's agent.",
			to:  &r.Model,
		},
		{
			key: "route.alternative_model", def: `""`, check: modelForm.MatchString, want: modelWant,
			doc: "Model for attempts after a verdict that asks for another model.", to: &r.AlternativeModel,
		},
	}
}

// Fits reports whether the route applies to an attempt.
func (r Route) Fits(t Traits) bool {
	labelled := len(r.Labels) == 0 || slices.ContainsFunc(r.Labels, func(want string) bool {
		return slices.ContainsFunc(t.Labels, func(has string) bool { return strings.EqualFold(want, has) })
	})
	after := r.After == "" || r.After == afterRepeated && t.Repeated || r.After == afterOverflow && t.Overflow
	return labelled && after && t.Attempt >= r.Attempt && t.Bytes >= r.MinBytes
}

// String formats the conditions and the choice, such as "labels docs: agent codex".
func (r Route) String() string {
	var when, what []string
	if len(r.Labels) > 0 {
		when = append(when, "labels "+strings.Join(r.Labels, ", "))
	}
	if r.Attempt > 1 {
		when = append(when, fmt.Sprintf("from attempt %d", r.Attempt))
	}
	if r.MinBytes > 0 {
		when = append(when, fmt.Sprintf("from %d bytes", r.MinBytes))
	}
	if r.After != "" {
		when = append(when, "after "+strings.ReplaceAll(r.After, "_", " "))
	}
	for _, field := range []struct{ name, value string }{
		{"agent", r.Agent}, {"model", r.Model}, {"alternative model", r.AlternativeModel},
	} {
		if field.value != "" {
			what = append(what, field.name+" "+field.value)
		}
	}
	if len(when) == 0 {
		when = []string{"all attempts"}
	}
	return strings.Join(when, ", ") + ": " + strings.Join(what, ", ")
}

// Routed returns the stages of an attempt that uses a route.
func (r Route) Routed(stages []Stage) []Stage {
	out := slices.Clone(stages)
	for i := range out {
		s := &out[i]
		if s.Name != "CODE" {
			continue
		}
		if r.Agent != "" && r.Agent != s.Agent {
			s.Agent, s.Run, s.Model, s.AlternativeModel, s.Resource = r.Agent, nil, "", "", ""
		}
		if r.Model != "" {
			s.Model = r.Model
		}
		if r.AlternativeModel != "" {
			s.AlternativeModel = r.AlternativeModel
		}
	}
	return out
}

// routes reads [[route]].
func (l *loader) routes(v any) {
	list, ok := v.([]any)
	if !ok {
		l.problem(l.place("route"), "route", "got "+tomlfile.Describe(v)+
			", want [[route]] for each route, with double brackets")
	}
	l.c.Routes, l.routed = make([]Route, len(list)), true
	for i, e := range list {
		path, rows := tomlfile.Element("route", i), routeKeys(&l.c.Routes[i])
		table, ok := e.(map[string]any)
		if !ok {
			l.problem(l.place(path), path, "got "+tomlfile.Describe(e)+", want a table with labels and agent")
			continue
		}
		for _, r := range rows {
			_ = r.setText(r.def)
		}
		l.table(path, "route", byKey(rows), table)
	}
}

// routeRules returns the checks of one route.
func routeRules(i int) []rule {
	path := tomlfile.Element("route", i)
	return []rule{
		{keys: []string{path + ".agent"}, also: "recovery.agents_file", wrong: func(c Config) string {
			r := c.Routes[i]
			if r.Agent == "" && r.Model == "" && r.AlternativeModel == "" {
				return "the route has no effect, want agent, model or alternative_model"
			}
			if _, err := c.Agents.Lookup(r.Agent); err == nil || r.Agent == "" {
				return ""
			}
			return fmt.Sprintf("no agent %s%s", shorten(r.Agent), spelling.Hint(r.Agent, c.Agents.Names()))
		}},
	}
}

// listRules returns the checks of all stages and routes. It also reports a missing CODE.
func (l *loader) listRules() (all []rule) {
	code := len(l.c.Stages) == 0
	for i, s := range l.c.Stages {
		path := tomlfile.Element("stage", i)
		code = code || s.Name == "CODE" || l.bad[path+".name"] || l.bad[path]
		if !l.bad[path] {
			all = append(all, stageRules(i)...)
		}
	}
	for i := range l.c.Routes {
		if !l.bad[tomlfile.Element("route", i)] {
			all = append(all, routeRules(i)...)
		}
	}
	if !code && (l.staged || !l.part) {
		l.problem(l.place("stage"), "stage", `CODE is missing, want one stage with name = "CODE", because only CODE `+
			"changes files")
	}
	return all
}
