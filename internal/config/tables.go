package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"retake/internal/agent"
	"retake/internal/recovery/classify"
	"retake/internal/recovery/policy"

	"retake/internal/tomlfile"
)

// Tables holds the classification rules and the policy: the built-in ones, overridden by the files in [recovery].
type Tables struct {
	Classifier *classify.Classifier
	Policy     *policy.Policy // without the configuration's limits
}

// builtinAgents is parsed only once.
var builtinAgents = sync.OnceValue(agent.Builtin)

// builtInRules builds the rules only once, because this takes a tenth of a second.
var builtInRules = sync.OnceValues(func() (*classify.Classifier, error) { return classify.New() })

// Tables reads the files and builds the tables. Load has already checked the files, so Tables finds problems only in
// files that have changed since.
func (c Config) Tables() (t Tables, all Problems) {
	all = ownFile("recovery.rules_file", c.Recovery.RulesFile, func(data ...[]byte) (err error) {
		if len(data) == 0 {
			t.Classifier, err = builtInRules()
		} else {
			t.Classifier, err = classify.New(data...)
		}
		return err
	})
	return t, append(all, ownFile("recovery.policy_file", c.Recovery.PolicyFile, func(data ...[]byte) (err error) {
		t.Policy, err = policyOf(c, data...)
		return err
	})...).sorted()
}

// policyOf returns the preset's policy. The rows of the optional document override it.
func policyOf(c Config, document ...[]byte) (*policy.Policy, error) {
	p, err := policy.Preset(c.Recovery.Preset)
	if err == nil && len(document) > 0 {
		p, err = policy.Parse(c.Recovery.PolicyFile, p, document[0])
	}
	return p, err
}

// wrongCaller checks the caller of a stage. It ignores a policy file that could not be read, because ownFiles has
// already reported its faults.
func (c Config) wrongCaller(s Stage) string {
	for _, other := range c.Stages {
		if other.Name == s.Name && other.Caller != s.Caller && s.Caller != "" {
			return "the stages " + s.Name + " have different callers, want the same caller, because a failure names " +
				"only " + s.Name
		}
	}
	p := c.policy
	if p == nil {
		var err error
		if p, err = policy.Preset(c.Recovery.Preset); err != nil || c.Recovery.PolicyFile != "" {
			return ""
		}
	}
	switch {
	case s.Caller == "" || slices.Contains(p.Callers(), s.Caller):
		return ""
	case len(p.Callers()) == 0:
		return fmt.Sprintf("all rows of policy %s apply to every caller, remove the key or add rows with "+
			"caller = %q to recovery.policy_file", p.Name(), s.Caller)
	}
	return fmt.Sprintf("policy %s has no row for caller %s, want one of %s", p.Name(), shorten(s.Caller),
		strings.Join(p.Callers(), ", "))
}

// ownFile passes the content of a file named in [recovery] to parse. If path is empty, it calls parse without
// arguments. A problem with the content has a position, but the problem for an unreadable file does not.
func ownFile(key, path string, parse func(data ...[]byte) error) (all Problems) {
	var documents [][]byte
	if path != "" {
		data, err := readFile(path, tomlfile.MaxBytes)
		if err != nil {
			return Problems{{Key: key, Text: shorten(path) + ": " + err.Error() +
				", want a TOML file; relative paths start at the configuration file's directory"}}
		}
		documents = [][]byte{data}
	}
	err := parse(documents...)
	faults, ok := errors.AsType[tomlfile.Faults](err)
	if err != nil && !ok {
		faults = tomlfile.Faults{{Position: tomlfile.Position{Line: 1, Col: 1}, Text: err.Error()}}
	}
	for _, f := range faults {
		all = append(all, Problem{
			Where: fmt.Sprintf("%s:%d:%d", path, f.Line, f.Col), Key: key, Text: f.String(), rank: rankTable,
			line: f.Line, col: f.Col,
		})
	}
	return all
}

// ownFiles checks the files configured in [recovery]. It stores the agents and the policy. Tables rereads the files of
// rules and policy.
func (l *loader) ownFiles() {
	r := l.c.Recovery
	var found Problems
	if r.AgentsFile != "" && !l.bad["recovery.agents_file"] {
		found = ownFile("recovery.agents_file", r.AgentsFile, func(data ...[]byte) error {
			table, err := agent.Parse(builtinAgents(), data[0])
			if err == nil {
				l.c.Agents = table
			}
			return err
		})
	}
	if (r.RulesFile != "" || r.PolicyFile != "") && !l.bad["recovery.rules_file"] && !l.bad["recovery.policy_file"] &&
		!l.bad["recovery.preset"] {
		t, wrong := l.c.Tables()
		found = append(found, wrong...)
		if r.PolicyFile != "" {
			l.c.policy = t.Policy
		}
	}
	for _, p := range found {
		at := p
		if at.Where == "" {
			at = l.place(p.Key)
		}
		l.problem(at, p.Key, p.Text)
	}
}
