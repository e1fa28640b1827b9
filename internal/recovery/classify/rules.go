package classify

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"retake/internal/gitwords"
	"retake/internal/recovery"
	"retake/internal/tomlfile"
)

//go:embed rules.toml
var embeddedRules []byte

// ErrRules is wrapped by every error about a rule file.
var ErrRules = errors.New("recovery: rules")

// evidenceTier is the distance of a rule's lines from the root cause. Rule files call it band.
type evidenceTier string

// The tiers; rules.toml explains them.
const (
	tierCheck   evidenceTier = "check"
	tierRunner  evidenceTier = "runner"
	tierFailure evidenceTier = "failure"
	tierStatus  evidenceTier = "status"
	tierCrash   evidenceTier = "crash"
	tierProse   evidenceTier = "prose"
	tierGuess   evidenceTier = "guess"
)

type tierRow struct {
	name       evidenceTier
	first      bool // the first matching line decides, not the last
	confidence float64
}

// index returns the tier's index in tiers.
func (t *tierRow) index() int {
	return slices.IndexFunc(tiers[:], func(o tierRow) bool { return o.name == t.name })
}

// isVague reports whether the tier's lines only describe the event in general words.
func (t *tierRow) isVague() bool { return t.name == tierProse || t.name == tierGuess }

// tiers lists the tiers, strongest first. The confidence estimates the share of a tier's matches that show the root
// cause.
var tiers = [...]tierRow{
	{tierCheck, true, 0.9},
	{tierRunner, true, 0.9},
	{tierFailure, false, 0.9},
	{tierStatus, false, 0.8},
	{tierCrash, false, 0.6},
	{tierProse, false, 0.5},
	{tierGuess, false, 0.3},
}

// tierOf returns the tier with this name, or nil.
func tierOf(name evidenceTier) *tierRow {
	for i := range tiers {
		if tiers[i].name == name {
			return &tiers[i]
		}
	}
	return nil
}

// rule is one [[rule]] table of rules.toml, where the fields are explained.
type rule struct {
	ID       string          `toml:"id"`
	Reason   recovery.Reason `toml:"reason"`
	Tier     evidenceTier    `toml:"band"`
	Any      []string        `toml:"any"`
	Git      []string        `toml:"git"`
	Match    string          `toml:"match"`
	Unless   []string        `toml:"unless"`
	Stages   []string        `toml:"stages"`
	Tools    []string        `toml:"tools"`
	Exit     *int            `toml:"exit"`
	Next     bool            `toml:"next"`
	Claim    bool            `toml:"claim"`
	Why      string          `toml:"why"`
	Examples []string        `toml:"examples"`

	answer  *providerError // source row, or nil
	doc     *ruleFile      // source document
	path    string         // the rule's path in doc
	tier    int            // index in tiers
	re      *expression    // nil if the literal suffices
	pattern *pattern       // of re
}

// statusRow maps an HTTP status to a reason, and to narrower reasons that the text may indicate. The codes 4 and 5
// stand for all other 4xx and 5xx statuses.
type statusRow struct {
	Code   int               `toml:"code"`
	Reason recovery.Reason   `toml:"reason"`
	Refine []recovery.Reason `toml:"refine"`
}

// exitRow maps an exit code to a reason, which applies if there is no better evidence. Tool is a prefix of the
// program's name. A wrapper's exit codes each have only one meaning, so they take precedence over text.
type exitRow struct {
	Code    int             `toml:"code"`
	Tool    string          `toml:"tool"`
	Wrapper bool            `toml:"wrapper"`
	Event   string          `toml:"event"`
	Reason  recovery.Reason `toml:"reason"`
	Why     string          `toml:"why"`
}

// ruleFile is one document of rules.
type ruleFile struct {
	Chatter struct {
		Any    []string `toml:"any"`
		Unless []string `toml:"unless"`
		Begins []string `toml:"begins"`
	} `toml:"chatter"`
	Rules     []rule          `toml:"rule"`
	Providers []providerError `toml:"provider_error"`
	Status    []statusRow     `toml:"status"`
	Exit      []exitRow       `toml:"exit"`

	name string
	file *tomlfile.File
}

// parseRules decodes one document and checks each row separately; see err.
func parseRules(name string, data []byte) *ruleFile {
	f := &ruleFile{name: name, file: tomlfile.Parse(data)}
	f.file.Decode("", f.file.Values, f)
	for i := range f.Rules {
		f.Rules[i].doc, f.Rules[i].path = f, tomlfile.Element("rule", i)
		f.Rules[i].readGit()
	}
	f.Rules = append(f.Rules, f.providerRules()...)
	var ids []string
	for i := range f.Rules {
		r := &f.Rules[i]
		if slices.Contains(ids, r.ID) {
			r.fault("id", "%q is used twice, want a unique id for each rule", r.ID)
		}
		ids = append(ids, r.ID)
		r.compile()
	}
	f.checkLiterals("chatter.any", f.Chatter.Any)
	f.checkLiterals("chatter.unless", f.Chatter.Unless)
	f.checkLiterals("chatter.begins", f.Chatter.Begins)
	known := func(path string, r recovery.Reason) {
		if _, ok := recovery.Describe(r); !ok {
			f.file.Fault(path, "unknown reason %q, want one listed in docs/specs/error-handling.md", r)
		}
	}
	for i, s := range f.Status {
		at := tomlfile.Element("status", i)
		known(at+".reason", s.Reason)
		for j, r := range s.Refine {
			known(tomlfile.Element(at+".refine", j), r)
		}
	}
	for i, x := range f.Exit {
		known(tomlfile.Element("exit", i)+".reason", x.Reason)
	}
	return f
}

// err returns the faults as an error that wraps ErrRules and tomlfile.Faults, or nil if there are no faults.
func (f *ruleFile) err() error {
	if err := f.file.Err(); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrRules, f.name, err)
	}
	return nil
}

// fault records a problem with one of the rule's keys.
func (r *rule) fault(key, format string, args ...any) {
	r.doc.file.Fault(r.path+"."+key, format, args...)
}

// readGit adds to the rule the plain texts of the gitwords meanings listed in its git key.
func (r *rule) readGit() {
	for i, name := range r.Git {
		at := tomlfile.Element("git", i)
		j := slices.IndexFunc(gitwords.Rows, func(w gitwords.Row) bool { return string(w.Meaning) == name })
		switch {
		case j < 0 || len(gitwords.Rows[j].Plain) == 0:
			r.fault(at, "%q: want a gitwords meaning with plain texts", name)
		case gitwords.Rows[j].Reason != string(r.Reason) || r.Match != "":
			r.fault(at, "%q has reason %s, want the same reason here and no match key", name, gitwords.Rows[j].Reason)
		default:
			r.Any = append(r.Any, gitwords.Rows[j].Plain...)
		}
	}
}

// compile checks r and prepares its expression.
func (r *rule) compile() {
	var err error
	if r.Match != "" {
		r.re, _, err = parseExpression(r.Match)
	}
	if r.answer != nil {
		r.answer.check(r)
	} else {
		r.check()
	}
	r.doc.checkLiterals(r.path+".unless", r.Unless)
	if err != nil {
		r.fault("match", "%v", err)
	}
}

// checkLiterals records literals that cannot match, because the search compares them with a single lower-case line.
func (f *ruleFile) checkLiterals(path string, literals []string) {
	for i, l := range literals {
		if l == "" || l != strings.ToLower(l) || strings.ContainsAny(l, "\n\r") {
			f.file.Fault(tomlfile.Element(path, i), "%q: want one non-empty line in lower case", l)
		}
	}
}

// check records faults in a [[rule]].
func (r *rule) check() {
	if r.ID == "" || r.Why == "" || len(r.Examples) == 0 {
		r.fault("id", "id, why and examples are required")
	}
	_, known := recovery.Describe(r.Reason)
	switch {
	case tierOf(r.Tier) == nil:
		r.fault("band", "unknown band %q, want check, runner, failure, status, crash, prose or guess", r.Tier)
	case r.Tier == tierStatus && known:
		r.fault("reason", "a rule in band status cannot have a reason")
	case r.Tier != tierStatus && !known:
		r.fault("reason", "unknown reason %q, want one listed in docs/specs/error-handling.md", r.Reason)
	}
	if len(r.Any) == 0 {
		r.fault("any", "at least one literal is required")
	}
	r.doc.checkLiterals(r.path+".any", r.Any)
	if r.Tier == tierStatus && (r.Match == "" || r.re != nil && r.re.groups != 1) {
		r.fault("match", "a rule in band status needs a match with exactly one group")
	}
}

// merge combines two files. A rule in over replaces the rule in base with the same id. If rules from both files match
// the same line, the rule from over decides.
func merge(base, over *ruleFile) *ruleFile {
	out := &ruleFile{Status: slices.Concat(over.Status, base.Status), Exit: slices.Concat(over.Exit, base.Exit)}
	out.Chatter.Any = slices.Concat(over.Chatter.Any, base.Chatter.Any)
	out.Chatter.Unless = slices.Concat(over.Chatter.Unless, base.Chatter.Unless)
	out.Chatter.Begins = slices.Concat(over.Chatter.Begins, base.Chatter.Begins)
	for _, r := range over.Rules {
		if !slices.ContainsFunc(base.Rules, func(b rule) bool { return b.ID == r.ID }) {
			out.Rules = append(out.Rules, r)
		}
	}
	for _, b := range base.Rules {
		if i := slices.IndexFunc(over.Rules, func(r rule) bool { return r.ID == b.ID }); i >= 0 {
			b = over.Rules[i]
		}
		out.Rules = append(out.Rules, b)
	}
	return out
}
