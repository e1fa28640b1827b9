package config

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/go-units"

	"retake/internal/bus/wire"
	"retake/internal/recovery/policy"
	"retake/internal/tomlfile"
	"retake/internal/tomlfile/spelling"
)

// Project overrides keys for one repository.
type Project struct {
	Repository string // owner/name

	// keys lists the keys that the project sets, in documentation order. "stage" and "route" stand for whole lists.
	keys []string
	from *Config            // holds their values
	at   map[string]Problem // maps their paths to their positions
}

// literal formats the project as TOML.
func (p Project) literal() string {
	var b strings.Builder
	b.WriteString("[[project]]\nrepository = " + strconv.Quote(p.Repository) + "\n")
	for _, r := range keys(p.from) {
		if slices.Contains(p.keys, r.key) {
			b.WriteString(r.key + " = " + r.literal() + "\n")
		}
	}
	if slices.Contains(p.keys, "route") && len(p.from.Routes) == 0 {
		b.WriteString("route = []\n")
	}
	write := func(list string, rows []row) {
		b.WriteString("[[project." + list + "]]\n")
		for _, r := range rows {
			_, name := cutLast(r.key)
			b.WriteString(name + " = " + r.literal() + "\n")
		}
	}
	for i := range p.from.Stages {
		if slices.Contains(p.keys, "stage") {
			write("stage", stageKeys(&p.from.Stages[i]))
		}
	}
	for i := range p.from.Routes {
		if slices.Contains(p.keys, "route") {
			write("route", routeKeys(&p.from.Routes[i]))
		}
	}
	return b.String()
}

// Places for project keys, in addition to the global section.
const (
	byOperator = "operator" // only in [[project]]
	byBoth     = "both"     // also in the repository's own contract
)

// projectKeys lists the keys that can differ between repositories. "stage" stands for the whole list of stages.
var projectKeys = map[string]string{
	"containers.image": byBoth, "containers.memory": byBoth, "containers.cpus": byBoth, "containers.pids": byBoth,
	// The contract is read from the base branch, so it cannot name that branch.
	"github.base_branch": byOperator,
	"scope.deny":         byBoth, "scope.ask": byBoth, "scope.allow": byBoth, "scope.allow_secrets": byBoth,
	"scope.allow_raw": byBoth, "scope.allow_left_out": byBoth, "scope.max_file_bytes": byBoth,
	"worker.fix_attempts": byBoth, "recovery.iteration_budget": byOperator,
	"recovery.paid_call_budget": byOperator, "recovery.cost_budget_usd": byOperator,
	"stage": byBoth, "route": byBoth,
}

// AllowedKeys lists the elements of projects.allow: ContractKeys and PromptKey. They are sorted.
func AllowedKeys() []string {
	all := append(ContractKeys(), PromptKey)
	slices.Sort(all)
	return all
}

// ContractKeys lists the keys that a repository's contract can set, if projects.allow names them. They are sorted.
func ContractKeys() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(projectKeys)), func(k string) bool {
		return projectKeys[k] != byBoth
	})
}

// For returns the configuration for one repository: c with the keys of the repository's [[project]].
func (c Config) For(repository string) Config {
	if p := projectOf(c.Projects, repository); p != nil {
		return withProject(c, *p)
	}
	return c
}

// withProject returns c with the keys of a project.
func withProject(c Config, p Project) Config {
	from := byKey(keys(p.from))
	for _, r := range keys(&c) {
		if slices.Contains(p.keys, r.key) {
			reflect.ValueOf(r.to).Elem().Set(reflect.ValueOf(from[r.key].to).Elem())
		}
	}
	c.assumed = slices.DeleteFunc(slices.Clone(c.assumed), func(b policy.Bound) bool {
		return slices.ContainsFunc(p.keys, func(key string) bool { return setsBound(key, b) })
	})
	if slices.Contains(p.keys, "stage") {
		c.Stages = p.from.Stages
	}
	if slices.Contains(p.keys, "route") {
		c.Routes = p.from.Routes
	}
	return c
}

// projects reads [[project]], after the global keys.
func (l *loader) projects(v any) {
	list, ok := v.([]any)
	if !ok && v != nil {
		l.problem(l.place("project"), "project", "got "+tomlfile.Describe(v)+
			", want [[project]] for each repository, with double brackets")
	}
	for i, e := range list {
		path := tomlfile.Element("project", i)
		table, ok := e.(map[string]any)
		if !ok {
			l.problem(l.place(path), path, "got "+tomlfile.Describe(e)+", want a table with repository and other keys")
			continue
		}
		l.project(path, table)
	}
}

func (l *loader) project(path string, table map[string]any) {
	name, _ := table["repository"].(string)
	at := l.place(path + ".repository")
	if !validRepository(name) {
		l.problem(at, path+".repository", `want the repository of the project as "owner/name"`)
	}
	for _, p := range l.c.Projects {
		if strings.EqualFold(p.Repository, name) {
			l.problem(at, path+".repository", "a second project for "+shorten(name)+", want one per repository")
		}
	}
	rest := maps.Clone(table)
	delete(rest, "repository")
	base := *l.c
	base.Projects = nil
	sub := l.layer(path, &base)
	sub.only = projectMayNot
	sub.table("", "", sub.rows, rest)
	l.problems, l.parts = append(l.problems, sub.problems...), append(l.parts, sub)
	l.c.Projects = append(l.c.Projects, Project{Repository: name, keys: sub.given(), from: &base, at: sub.set})
}

// projectMayNot returns why a project cannot set an existing key, or "". Other keys are unknown; see unknownKey.
func projectMayNot(key string) string {
	if projectKeys[key] != "" || isUnknown(key) || unsupported[key] != "" {
		return ""
	}
	return "this key is the same for all repositories: move it out of [[project]]"
}

// projectRules checks the rules of each project in the complete configuration of its repository. It also reports
// projects for repositories that the director does not serve.
func (l *loader) projectRules() {
	served := l.c.GitHub.Repositories // CheckRun reports an empty list
	for i, p := range l.c.Projects {
		sub := l.parts[i]
		is := func(repo string) bool { return strings.EqualFold(repo, p.Repository) }
		if key := sub.path("repository"); !l.bad[key] && !l.bad["github.repositories"] && len(served) > 0 &&
			!slices.ContainsFunc(served, is) {
			l.problem(l.place(key), key, "not in github.repositories: add it there, or remove the project")
		}
		for key := range l.rows {
			if _, set := sub.set[key]; l.bad[key] && !set {
				sub.bad[key] = true
			}
		}
		l.problems = append(l.problems, sub.partRules(withProject(*l.c, p))...)
	}
}

// partRules returns the problems between the keys of a project and the other keys of c.
func (l *loader) partRules(c Config) Problems {
	l.c, l.rows, l.problems = &c, byKey(keys(&c)), nil
	l.rules()
	return l.problems
}

// sets reports whether the loader sets a key, or the list with the key.
func (l *loader) sets(key string) bool {
	switch list, _, _ := strings.Cut(key, "["); list {
	case "stage":
		return l.staged
	case "route":
		return l.routed
	}
	return l.set[key].Where != ""
}

// layer returns a loader that sets keys of c from the part of the document below prefix.
func (l *loader) layer(prefix string, c *Config) *loader {
	return &loader{
		name: l.name, prefix: prefix, c: c, rows: byKey(keys(c)), doc: l.doc, set: map[string]Problem{},
		bad: map[string]bool{}, part: true,
	}
}

// staged maps the keys of stages and routes to the name of the list.
func staged(key string) string {
	if list, _, ok := strings.Cut(key, "."); ok && lists[list] {
		return list
	}
	return key
}

// given lists the project keys that the layer has set, in documentation order.
func (l *loader) given() (all []string) {
	for _, r := range keys(&Config{}) {
		if _, set := l.set[r.key]; set {
			all = append(all, r.key)
		}
	}
	if l.staged {
		all = append(all, "stage")
	}
	if l.routed {
		all = append(all, "route")
	}
	return all
}

// ContractFiles are the paths of a contract in a repository. The first that exists counts.
var ContractFiles = []string{".github/retake.toml", LocalFile}

// MaxContract is the maximum size of a contract in bytes.
const MaxContract = 64 << 10

// Contract returns the configuration of a repository for attempts that start from a commit with the given contract. c
// is the repository's configuration without it; see For. The operator's values limit the contract's numbers and sizes,
// and the contract can only add to scope.deny and scope.ask. name is the contract's path, for messages.
// accepted means that an attempt already began with this contract, so ProjectsAllow, the limits and the rules between
// keys do not apply.
func Contract(c Config, name string, data []byte, accepted bool) (Config, Problems) {
	terms := Terms{Allow: c.ProjectsAllow, Limited: true}
	if accepted {
		terms = AnyTerms()
		terms.accepted = true
	}
	read, problems := ReadContract(c, name, data, terms)
	return read.Config, problems
}

func contractMayNot(allow []string, key string) string {
	switch {
	case key == PromptKey:
		return "a prompt is a separate file: move it to " + PromptFile
	case projectKeys[key] == byOperator:
		return "only the operator can set this key, in [[project]] of the director's configuration: remove it"
	case projectKeys[key] == "" && isUnknown(key):
		return "a contract has no such key" + spelling.Hint(key, ContractKeys())
	case projectKeys[key] == "":
		return "this key belongs to the director's configuration, not to a repository: remove it"
	case !slices.Contains(allow, key):
		return "the operator does not allow this key: remove it, or ask the operator to add " + shorten(key) +
			" to projects.allow"
	}
	return ""
}

// isUnknown reports whether a key does not exist in a director's configuration.
func isUnknown(key string) bool {
	return key != "project" && unsupported[key] == "" &&
		!slices.ContainsFunc(allRows, func(r row) bool { return r.key == key })
}

// limits reports values that exceed the operator's limits.
func (l *loader) limits(operator Config) {
	before := byKey(keys(&operator))
	for _, key := range l.given() {
		if limit := before[key]; exceeds(l.rows[key], limit) {
			l.problem(l.place(key), key, "it exceeds the operator's limit, want at most "+limit.literal())
		}
	}
}

// protect extends the contract's lists of paths with the operator's lists.
func (l *loader) protect(operator Config) {
	for key, list := range map[string][2]*[]string{
		"scope.deny": {&l.c.Scope.Deny, &operator.Scope.Deny}, "scope.ask": {&l.c.Scope.Ask, &operator.Scope.Ask},
	} {
		if _, set := l.set[key]; !set {
			continue
		}
		own, theirs := list[0], *list[1]
		if slices.ContainsFunc(*own, func(glob string) bool { return strings.HasPrefix(glob, "!") }) {
			l.problem(l.place(key), key, "a contract cannot permit protected paths: remove the globs that begin with !")
		}
		*own = slices.Concat(theirs, *own)
	}
	if _, set := l.set["scope.allow"]; set {
		own := maps.Clone(l.c.Scope.Allow)
		for label, globs := range operator.Scope.Allow {
			own[label] = slices.Concat(globs, own[label])
		}
		l.c.Scope.Allow = own
	}
}

// countsCalls reports stages that the contract excludes from the operator's budget.
func (l *loader) countsCalls() {
	for i, s := range l.c.Stages {
		if key := tomlfile.Element("stage", i) + ".paid"; l.staged && s.Paid == wire.PaidNever {
			l.problem(l.place(key), key, "a contract cannot exclude calls from recovery.paid_call_budget, want "+
				`"auto" or "always"`)
		}
	}
}

// exceeds reports whether a number or a size exceeds the operator's limit.
func exceeds(r, operator row) bool {
	switch to := r.to.(type) {
	case *int:
		return *to > *operator.to.(*int)
	case *float64:
		return *to > *operator.to.(*float64)
	case *string:
		size, err := units.RAMInBytes(*to)
		limit, err2 := units.RAMInBytes(*operator.to.(*string))
		return r.key == "containers.memory" && err == nil && err2 == nil && size > limit
	}
	return false
}
