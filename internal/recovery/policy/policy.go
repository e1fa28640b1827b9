package policy

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"retake/internal/recovery"
)

// Unit selects which failures a row counts together.
type Unit string

// The units. A person's answer resets all counts except BySession.
const (
	ByRow       Unit = "row"       // failures of this row
	ByCall      Unit = "call"      // this caller's failures, for any reason; reset by a success
	ByTask      Unit = "task"      // this task's failures, for any reason
	BySignature Unit = "signature" // failures with the same signature; reset by a success
	BySession   Unit = "session"   // failures in the session, for any reason
)

// Condition decides whether a step applies.
type Condition string

// The conditions. A "!" before a condition negates it.
const (
	HasAlternative   Condition = "has_alternative"
	AlreadyCompacted Condition = "already_compacted"
	ResetStated      Condition = "reset_stated"
)

// Rung is one step of a ladder. If one of its conditions does not hold, the next step handles the failure.
type Rung struct {
	Action recovery.Action
	Times  int // number of further attempts, or Unlimited
	When   []Condition
}

// Wait sets the waits of wait_reset and cooldown, and how other actions treat stated waits.
type Wait struct {
	Default time.Duration // first wait if the error does not state one, doubled each time; 0 means a minute
	Cap     time.Duration // limit on unstated waits; 0 means an hour
	// Longest is the longest stated wait to obey. If a longer wait is stated, steps that use the same provider again do
	// not apply. 0 means that stated waits are ignored.
	Longest time.Duration
	Backoff bool // the backoff's first step is added to the wait
}

// Row maps failures to actions.
type Row struct {
	// On is a reason, the name of a group of reasons, or "*" for all other reasons.
	On      string            `toml:"on" json:"on"`
	Reasons []recovery.Reason `toml:"reasons" json:"reasons,omitempty"` // the reasons that On stands for
	// Caller restricts the row to one caller. Empty means any.
	Caller string         `toml:"caller" json:"caller,omitempty"`
	Class  recovery.Class `toml:"class" json:"class,omitempty"` // overrides the class in recovery.Reasons
	// Fatal ends the whole run, unless the policy continues on errors.
	Fatal   bool     `toml:"fatal" json:"fatal"`
	Count   Unit     `toml:"count" json:"count"`
	Ladder  []Rung   `toml:"ladder" json:"ladder"`
	Backoff *Backoff `toml:"backoff" json:"backoff,omitempty"` // overrides the policy's backoff
	Wait    Wait     `toml:"wait" json:"wait"`
	// Restarts means that a wait restarts the task's backoffs.
	Restarts bool `toml:"restarts_backoff" json:"restarts_backoff"`
	// Cools is the resource that the row closes while it waits.
	Cools string          `toml:"cools" json:"cools,omitempty"`
	Then  recovery.Action `toml:"then" json:"then"` // the action once the ladder is exhausted
	// Becomes is the failure's reason once the ladder is exhausted. That reason's row then decides.
	Becomes recovery.Reason `toml:"becomes" json:"becomes,omitempty"`
	// Ask is the question for a person. It overrides the question in recovery.Reasons.
	Ask string `toml:"ask" json:"ask,omitempty"`
	Why string `toml:"why" json:"why,omitempty"` // the author's explanation of the row

	id     string // "<policy>.<on>[@caller]"
	layer  int    // number of bases below the row's document
	line   int    // line in the document; 0 for a row from its base
	broken bool   // set if the row has faults
}

// Policy maps reasons and callers to rows, and contains the guards for all rows. It is immutable and safe for
// concurrent use. Preset and Parse create policies.
type Policy struct {
	name              string
	about             string
	rows              []Row
	guards            Guards
	backoff           recovery.Backoff
	usesConfigBackoff bool      // prefer the configured backoff to the policy's backoff
	callers           []string  // callers named in rows; the first is "", which means any
	index             [][]int16 // row by caller and by index in Reasons; -1 if there is no row
	continueOnError   bool      // set if the run continues after errors
	outranksNever     bool      // set if an incident postpones even failures that no row retries
	explicitKeys      []Bound   // effective limits from the operator's document
	presetKeys        []Bound   // limits set by the preset
	empty             bool      // the document is empty
	backoffLine       int       // line of the document's backoff, or 0
}

// Name returns the policy's name.
func (p *Policy) Name() string { return p.name }

// Table returns all rows in the document's order. The caller may modify the result.
func (p *Policy) Table() []Row { return slices.Clone(p.rows) }

// Callers returns the callers named in rows, in row order.
func (p *Policy) Callers() []string { return slices.Clone(p.callers[1:]) }

// Guards returns the limits on all rows together.
func (p *Policy) Guards() Guards { return p.guards }

// ContinuesOnError reports whether the run continues after fatal failures.
func (p *Policy) ContinuesOnError() bool { return p.continueOnError }

// Backoff returns the backoff of rows that do not set one.
func (p *Policy) Backoff() recovery.Backoff { return p.backoff }

// Row returns the row that decides a reason for a caller. ok is false if the policy has no row for the reason
// or for Unknown.
func (p *Policy) Row(r recovery.Reason, caller string) (Row, bool) {
	if row := p.row(r, caller); row != nil {
		return *row, true
	}
	return Row{}, false
}

// Never reports whether the policy forbids another attempt after this failure, even after an incident.
func (p *Policy) Never(r recovery.Reason, caller string) bool {
	if p.outranksNever {
		return false
	}
	row := p.row(r, caller)
	for range maxHops {
		if row == nil || slices.ContainsFunc(row.Ladder, func(g Rung) bool { return g.Action.Again() }) {
			return false
		}
		if row.Becomes == "" {
			return true
		}
		row = p.row(row.Becomes, caller)
	}
	return false
}

// row returns the deciding row, or nil if the policy has no row for r or for Unknown.
func (p *Policy) row(r recovery.Reason, caller string) *Row {
	if len(p.index) == 0 {
		return nil
	}
	if i := p.index[p.caller(caller)][reasonIndex(r)]; i >= 0 {
		return &p.rows[i]
	}
	return nil
}

// caller returns a caller's index in callers, or 0 (any) if no row is for this caller. The name can be longer or
// shorter than in the row: "hooks/budget-enforcer.ts" matches "budget-enforcer", and "figma" matches "figma-probe".
func (p *Policy) caller(name string) int {
	if i := slices.Index(p.callers, name); i >= 0 {
		return i
	}
	const least = 4 // length of the shortest part that identifies a caller
	if name = lettersAndDigits(name); len(name) < least {
		return 0
	}
	for i, c := range p.callers {
		if c = lettersAndDigits(c); len(c) >= least && (strings.Contains(name, c) || strings.Contains(c, name)) {
			return i
		}
	}
	return 0
}

// lettersAndDigits keeps a name's letters and digits, in lower case.
func lettersAndDigits(name string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case 'A' <= c && c <= 'Z':
			return c + 'a' - 'A'
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
			return c
		}
		return -1
	}, name[:min(len(name), 200)])
}

// reasonIndex returns the index of r in Reasons, or that of Unknown for an unlisted reason.
func reasonIndex(r recovery.Reason) int {
	for i := range recovery.Reasons {
		if recovery.Reasons[i].Reason == r {
			return i
		}
	}
	return len(recovery.Reasons) - 1
}

// newPolicy returns a policy with these rows. A row for the caller takes precedence over a row for any caller. Among
// the rows for one caller, "*" comes last. Before it, the document's rows precede rows of its base, and a row for the
// reason precedes a row for its group. The row for Unknown is the fallback.
func newPolicy(name string, rows []Row) *Policy {
	p := &Policy{
		name: name, rows: slices.Clone(rows), callers: []string{""}, backoff: recovery.DefaultBackoff,
		guards: Guards{MaxRetries: recovery.Unlimited},
	}
	for i := range p.rows {
		r := &p.rows[i]
		id := name + "." + r.On
		if r.Caller != "" {
			id += "@" + r.Caller
			if !slices.Contains(p.callers, r.Caller) {
				p.callers = append(p.callers, r.Caller)
			}
		}
		if r.Then.About().Action == "" || r.Then.Again() {
			r.Then = recovery.Escalate
		}
		for _, d := range []*time.Duration{&r.Wait.Default, &r.Wait.Cap, &r.Wait.Longest} {
			*d = min(max(*d, 0), recovery.LongestWait)
		}
		r.Ladder = append([]Rung{}, r.Ladder...)
		for k := range r.Ladder {
			if r.Ladder[k].Action.About().Action == "" {
				r.Ladder[k].Action = recovery.Escalate
			}
		}
		if r.id == "" { // only an inherited row already has an id
			r.id = id
		}
	}
	for _, caller := range p.callers {
		line := make([]int16, len(recovery.Reasons))
		for i, about := range recovery.Reasons {
			line[i] = p.rowFor(about.Reason, caller)
		}
		p.index = append(p.index, line)
	}
	for _, line := range p.index {
		for i := range line {
			if line[i] < 0 {
				line[i] = line[len(line)-1]
			}
		}
	}
	return p
}

// rowFor returns the index of the row for r and a caller, or -1.
func (p *Policy) rowFor(r recovery.Reason, caller string) int16 {
	for _, c := range []string{caller, ""} {
		best, found := -1, rank{}
		for i := range p.rows {
			if p.rows[i].Caller != c {
				continue
			}
			if k, ok := p.rows[i].rank(r); ok && (best < 0 || found.less(k)) {
				best, found = i, k
			}
		}
		if best >= 0 {
			return int16(best)
		}
	}
	return -1
}

// rank orders rows by specificity. "*" comes last. Before it, later documents precede earlier ones, and within a
// document reasons precede groups.
type rank struct{ named, layer, exact int }

func (k rank) less(o rank) bool {
	return cmp.Or(cmp.Compare(k.named, o.named), cmp.Compare(k.layer, o.layer), cmp.Compare(k.exact, o.exact)) < 0
}

func (r *Row) rank(reason recovery.Reason) (rank, bool) {
	switch {
	case r.On == string(reason):
		return rank{1, r.layer, 1}, true
	case slices.Contains(r.Reasons, reason):
		return rank{1, r.layer, 0}, true
	}
	return rank{0, r.layer, 0}, r.On == "*"
}
