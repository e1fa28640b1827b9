package config

import (
	"fmt"
	"strings"

	"retake/internal/tomlfile"
)

// Terms are the operator's rules for a contract.
type Terms struct {
	Allow   []string // keys that the contract may set
	Limited bool     // the operator's values limit the contract's numbers and sizes

	accepted bool // see Contract
}

// AnyTerms returns the terms that accept every valid contract.
func AnyTerms() Terms { return Terms{Allow: ContractKeys()} }

// ContractText is a contract that has been read.
type ContractText struct {
	Config Config // the repository's configuration, with the contract
	// Keys lists the keys that the contract sets, in documentation order. "stage" and "route" stand for whole lists.
	Keys []string

	at map[string]Problem // maps their paths to their positions
}

// ReadContract is like Contract, with the given terms.
func ReadContract(c Config, name string, data []byte, terms Terms) (ContractText, Problems) {
	out := ContractText{Config: c}
	if len(data) > MaxContract {
		return out, Problems{{
			Where: name + ":1:1", Text: fmt.Sprintf("the contract exceeds the limit of %d bytes", MaxContract),
			line: 1, col: 1,
		}}
	}
	out.Config.Projects = nil
	l := (&loader{name: name, doc: tomlfile.Parse(data)}).layer("", &out.Config)
	for _, f := range l.doc.Faults() {
		l.problem(l.atPosition(f.Position), "", f.Text)
	}
	l.only = func(key string) string { return contractMayNot(terms.Allow, key) }
	l.table("", "", l.rows, l.doc.Values)
	if terms.Limited {
		l.limits(c)
	}
	l.protect(c)
	if !terms.accepted {
		l.countsCalls()
		l.rules()
	}
	out.Keys, out.at = l.given(), l.set
	return out, l.problems.sorted()
}

// IsContract reports whether a file in a repository is a contract. A file in the root can be the configuration of a
// director instead.
func IsContract(name string, data []byte) bool {
	_, is := IsOperators(data)
	return !is || name != LocalFile
}

// IsOperators reports whether a file is a director's configuration, not a contract: it has a section or key without
// which no director runs, and which a contract cannot have. key is the first of them.
func IsOperators(data []byte) (key string, is bool) {
	doc := tomlfile.Parse(data)
	for _, key := range []string{"github.repositories", "director", "project", "projects", "agent_bus"} {
		if doc.Has(key) {
			return key, true
		}
	}
	return "", false
}

// Position returns the line and column of a problem in a file. Both are 0 for a problem elsewhere.
func (p Problem) Position() (line, col int) { return p.line, p.col }

// ProjectSettings returns the settings of one repository with their origins: every key that [[project]] can set.
// It reads the director's configuration like Load. The optional contract is limited by that configuration.
func ProjectSettings(path string, env []string, overrides map[string]string, repo string, contract *NamedText) (
	[]Setting, Problems,
) {
	l, problems := loadFile(path, env, overrides)
	if len(problems) > 0 {
		return nil, problems
	}
	c := l.c.For(repo)
	layers := []layerOf{{"", l.set}}
	if p := projectOf(l.c.Projects, repo); p != nil {
		layers = append(layers, layerOf{FromProject, p.at})
	}
	if contract != nil {
		read, problems := ReadContract(c, contract.Name, contract.Data, Terms{Allow: c.ProjectsAllow, Limited: true})
		if len(problems) > 0 {
			return nil, problems
		}
		c, layers = read.Config, append(layers, layerOf{FromContract, read.at})
	}
	return c.asBounded(projectSettings(c, layers))
}

// NamedText is a file's content with the file's name.
type NamedText struct {
	Name string
	Data []byte
}

// layerOf holds the positions of the keys that one source sets. An empty origin means the configuration itself.
type layerOf struct {
	origin Origin
	at     map[string]Problem
}

// projectSettings lists the keys that can differ between repositories. Later layers take precedence.
func projectSettings(c Config, layers []layerOf) (out []Setting) {
	add := func(path string, r row, layers []layerOf) {
		s := Setting{Key: path, Value: shownValue(r.key, r.literal()), From: FromDefault}
		for _, l := range layers {
			at, set := l.at[path]
			if !set {
				continue
			}
			if s.From, s.Where = originOf(at); l.origin != "" {
				s.From = l.origin
			}
		}
		out = append(out, s)
	}
	for _, r := range keys(&c) {
		if projectKeys[r.key] != "" {
			add(r.key, r, layers)
		}
	}
	addList := func(list string, i int, rows []row) {
		for _, r := range rows {
			_, name := cutLast(r.key)
			add(tomlfile.Join(tomlfile.Element(list, i), name), r, lastWith(list, layers))
		}
	}
	for i := range c.Stages {
		addList("stage", i, stageKeys(&c.Stages[i]))
	}
	for i := range c.Routes {
		addList("route", i, routeKeys(&c.Routes[i]))
	}
	return out
}

// lastWith returns the last layer with elements of a list. It defines the whole list.
func lastWith(list string, layers []layerOf) []layerOf {
	for i := len(layers) - 1; i >= 0; i-- {
		for path := range layers[i].at {
			if strings.HasPrefix(path, list+"[") {
				return layers[i : i+1]
			}
		}
	}
	return nil
}

// projectOf returns a repository's project, or nil.
func projectOf(projects []Project, repository string) *Project {
	for i, p := range projects {
		if strings.EqualFold(p.Repository, repository) {
			return &projects[i]
		}
	}
	return nil
}

// IsRepository reports whether s has the form owner/name.
func IsRepository(s string) bool { return validRepository(s) }
