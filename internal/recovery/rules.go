package recovery

import (
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

//go:embed rules.toml
var embeddedRules []byte

// ErrRules is wrapped by every error about a file of rules.
var ErrRules = errors.New("recovery: rules")

// band says how near to the root cause a rule's lines stand.
type band string

// The bands; rules.toml explains them.
const (
	bandCheck   band = "check"
	bandRunner  band = "runner"
	bandFailure band = "failure"
	bandStatus  band = "status"
	bandCrash   band = "crash"
	bandProse   band = "prose"
	bandGuess   band = "guess"
)

type bandRow struct {
	name       band
	first      bool // the first line counts, not the last
	confidence float64
}

// bands says what each band is worth. Confidence: our estimate of how often such a rule names the root cause.
var bands = []bandRow{
	{bandCheck, true, 0.95},
	{bandRunner, true, 0.95},
	{bandFailure, false, 0.9},
	{bandStatus, false, 0.8},
	{bandCrash, false, 0.6},
	{bandProse, false, 0.5},
	{bandGuess, false, 0.3},
}

// rule is one [[rule]] of rules.toml, which explains the fields.
type rule struct {
	ID       string   `toml:"id"`
	Reason   Reason   `toml:"reason"`
	Band     band     `toml:"band"`
	Any      []string `toml:"any"`
	Match    string   `toml:"match"`
	Unless   []string `toml:"unless"`
	Stages   []string `toml:"stages"`
	Next     bool     `toml:"next"`
	Why      string   `toml:"why"`
	Examples []string `toml:"examples"`

	doc   string         // where it stands
	re    *regexp.Regexp // nil: the literal suffices
	parts *expression    // re, faster; says no more than whether it matches
}

// statusRow says what an HTTP status means, and which narrower reasons the text may give instead. Codes 4 and 5 stand
// for all others of their hundred.
type statusRow struct {
	Code   int      `toml:"code"`
	Reason Reason   `toml:"reason"`
	Refine []Reason `toml:"refine"`
}

// exitRow says what an exit code means when nothing else is known. Tool is a prefix of the program's name. The codes
// of a wrapper mean one event each, so that they decide before text.
type exitRow struct {
	Code    int    `toml:"code"`
	Tool    string `toml:"tool"`
	Wrapper bool   `toml:"wrapper"`
	Event   string `toml:"event"`
	Reason  Reason `toml:"reason"`
	Why     string `toml:"why"`
}

// ruleFile is one document of rules.
type ruleFile struct {
	Chatter struct {
		Any    []string `toml:"any"`
		Begins []string `toml:"begins"`
	} `toml:"chatter"`
	Rules  []rule      `toml:"rule"`
	Status []statusRow `toml:"status"`
	Exit   []exitRow   `toml:"exit"`
}

// parseRules decodes one document and checks each row by itself. All faults are reported together.
func parseRules(name string, data []byte) (ruleFile, error) {
	var f ruleFile
	md, err := toml.Decode(string(data), &f)
	if err != nil {
		return f, fmt.Errorf("%w: %s: %w", ErrRules, name, err)
	}
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: %s: %s", ErrRules, name, fmt.Sprintf(format, args...)))
	}
	for _, k := range md.Undecoded() {
		fault("unknown key %s; the head of rules.toml names the keys", k)
	}
	var ids []string
	for i := range f.Rules {
		r := &f.Rules[i]
		r.doc = name
		if slices.Contains(ids, r.ID) {
			fault("rule %q: id is used twice; give one of the two another id", r.ID)
		}
		ids = append(ids, r.ID)
		if err := r.compile(); err != nil {
			fault("rule %q: %v", r.ID, err)
		}
	}
	for _, s := range f.Status {
		for _, r := range append([]Reason{s.Reason}, s.Refine...) {
			if _, ok := Describe(r); !ok {
				fault("status %d: unknown reason %q", s.Code, r)
			}
		}
	}
	for _, x := range f.Exit {
		if _, ok := Describe(x.Reason); !ok {
			fault("exit %d: unknown reason %q", x.Code, x.Reason)
		}
	}
	return f, errors.Join(faults...)
}

// compile checks r and prepares its expression.
func (r *rule) compile() error {
	if r.ID == "" || r.Why == "" || len(r.Examples) == 0 {
		return errors.New("id, why and examples are needed; add what is missing")
	}
	if !slices.ContainsFunc(bands, func(b bandRow) bool { return b.name == r.Band }) {
		return fmt.Errorf("unknown band %q; take check, runner, failure, status, crash, prose or guess", r.Band)
	}
	if _, ok := Describe(r.Reason); ok == (r.Band == bandStatus) {
		return fmt.Errorf("unknown reason %q; take one of docs/specs/error-handling.md (a rule of band status has none)", r.Reason)
	}
	if len(r.Any) == 0 {
		return errors.New("any: at least one literal is needed")
	}
	for _, l := range slices.Concat(r.Any, r.Unless) {
		if l == "" || l != strings.ToLower(l) || strings.ContainsAny(l, "\n\r") {
			return fmt.Errorf("any, unless: %q: want one line of lower case", l)
		}
	}
	if r.Match == "" {
		if r.Band == bandStatus {
			return errors.New("match: a rule of band status needs a group")
		}
		return nil
	}
	re, err := regexp.Compile(r.Match)
	if err != nil {
		return fmt.Errorf("match: %w", err)
	}
	if r.Band == bandStatus && re.NumSubexp() != 1 {
		return errors.New("match: a rule of band status needs exactly one group")
	}
	r.re = re
	r.parts, err = newExpression(r.Match)
	return err
}

// merge puts over before base: a rule with a known id replaces that one, others win over base on the same line.
func merge(base, over ruleFile) ruleFile {
	out := ruleFile{Status: slices.Concat(over.Status, base.Status), Exit: slices.Concat(over.Exit, base.Exit)}
	out.Chatter.Any = slices.Concat(over.Chatter.Any, base.Chatter.Any)
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
