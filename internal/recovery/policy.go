package recovery

import (
	"slices"
	"strings"
	"time"
)

// Action is what a verdict tells the director to do.
type Action string

// The actions.
const (
	WaitReset        Action = "wait_reset"
	Retry            Action = "retry"
	RetryCompact     Action = "retry_compact"
	RetryAlternative Action = "retry_alternative"
	Replan           Action = "replan"
	FixAttempt       Action = "fix_attempt"
	Reprobe          Action = "reprobe"
	RestartWorker    Action = "restart_worker"
	CoolDown         Action = "cooldown"
	Skip             Action = "skip"
	Reclaim          Action = "reclaim"
	Escalate         Action = "escalate"
	Stop             Action = "stop"
	Abort            Action = "abort"
)

// AboutAction is what is known of an action, whatever a policy uses it for.
type AboutAction struct {
	Action Action
	Again  bool // leads to another attempt
	Free   bool // that attempt is charged to no cause
	Same   bool // it goes to the same provider: a stated wait counts
	Means  string
}

// Actions lists every action once.
var Actions = []AboutAction{
	{WaitReset, true, true, true, "wait for the reset, charge nothing, then try again"},
	{Retry, true, false, true, "another attempt on the same checkout"},
	{RetryCompact, true, false, true, "another attempt with a shorter context"},
	{RetryAlternative, true, false, false, "another attempt with the alternative model"},
	{Replan, true, false, true, "another attempt that plans anew instead of going on"},
	{FixAttempt, true, false, true, "another attempt that is given the check's output to fix"},
	{Reprobe, true, false, true, "look for the missing thing once more, then another attempt"},
	{RestartWorker, true, false, true, "another attempt, because the worker and not the work was at fault"},
	{CoolDown, true, true, true, "close the resource for everybody, then try again"},
	{Skip, false, false, false, "leave this one out and go on with the others"},
	{Reclaim, false, false, false, "give the issue back"},
	{Escalate, false, false, false, "block the issue and ask a human"},
	{Stop, false, false, false, "stop this task and report"},
	{Abort, false, false, false, "stop everything and report"},
}

// About returns what is known of a; the zero value for what is no action.
func (a Action) About() AboutAction { return *a.about() }

func (a Action) about() *AboutAction {
	for i := range Actions {
		if Actions[i].Action == a {
			return &Actions[i]
		}
	}
	return &noAction
}

var noAction AboutAction

// Again says whether the action leads to another attempt.
func (a Action) Again() bool { return a.about().Again }

// Unit says which failures a row counts together.
type Unit string

// The units. A person's answer starts all but the session's at zero.
const (
	ByRow       Unit = "row"       // of this row
	ByCall      Unit = "call"      // of this caller, whatever the reason; a success starts them at zero
	ByTask      Unit = "task"      // of this task, whatever the reason
	BySignature Unit = "signature" // with the same signature; a success starts them at zero
	BySession   Unit = "session"   // of everything, whatever the reason
)

// Condition is what must hold for a rung to count.
type Condition string

// The conditions; "!" before one is its opposite.
const (
	HasAlternative   Condition = "has_alternative"
	AlreadyCompacted Condition = "already_compacted"
	ResetStated      Condition = "reset_stated"
)

// Unlimited is the number of times of a rung that the policy does not bound. The engine does.
const Unlimited = -1

// Rung is one step of a ladder. If a condition fails, its width is zero: the failure is the next rung's.
type Rung struct {
	Action Action
	Times  int // further attempts, or Unlimited
	When   []Condition
}

// Wait says how long wait_reset and cooldown wait, and what a stated wait means to the other actions.
type Wait struct {
	Default time.Duration // first wait when nothing states one, then doubled each time; 0: a minute
	Cap     time.Duration // of waits that nothing states; 0: an hour
	Longest time.Duration // stated waits up to it are obeyed, for a longer one the rung counts as absent; 0: not looked at
	Backoff bool          // the backoff's first step is added to the wait
}

// Row is one line of a policy: what a failure leads to.
type Row struct {
	On       string   // a reason, a word of the policy's own for several reasons, or "*" for all others
	Reasons  []Reason // that the word stands for
	Caller   string   // only for failures of this caller; empty: of any
	Class    Class    // what heals it; empty: as Reasons says
	Fatal    bool     // ends the whole run, unless errors are to be continued after
	Count    Unit
	Ladder   []Rung
	Backoff  *Backoff // nil: the policy's
	Wait     Wait
	Restarts bool   // waiting starts every backoff of the task at its first step
	Cools    string // resource that is closed for everybody while this waits
	Charges  Cause  // meter of retries; empty: the reason's cause
	Then     Action // when the ladder is used up
	Becomes  Reason // when the ladder is used up: the failure is this one now, and its row decides
	Ask      string // what a person is asked; empty: as Reasons says
	Why      string // the argument for the row

	id     string // "<policy>.<on>[@caller]"
	layer  int    // of the document: 0, and one more than its base's
	line   int    // in the document; 0: it is the base's
	broken bool   // the document has faults in it
}

// Free as a row's meter: its retries are charged to no cause.
const Free Cause = "none"

// Policy is a table from reason and caller to row, and what bounds all rows together. It is immutable and safe for
// concurrent use. Made by Preset and ParsePolicy.
type Policy struct {
	name    string
	about   string
	rows    []Row
	guards  Guards
	backoff Backoff
	ours    bool      // the configuration's backoff replaces the policy's
	callers []string  // that any row names; the first is "", any
	index   [][]int16 // by caller, by place in Reasons: the row; -1: none
	goesOn  bool      // errors are continued after
	stated  []Bound   // by a document of one's own, and in force
	empty   bool      // there is nothing in the document
	shape   int       // line of the document's backoff; 0: it has none
}

// Name returns the policy's name.
func (p *Policy) Name() string { return p.name }

// Table returns all rows in the document's order. They are the caller's.
func (p *Policy) Table() []Row { return slices.Clone(p.rows) }

// Guards returns what bounds all rows together.
func (p *Policy) Guards() Guards { return p.guards }

// Backoff returns the wait of rows that have none of their own.
func (p *Policy) Backoff() Backoff { return p.backoff }

// Row returns the row that decides a reason for a caller.
func (p *Policy) Row(r Reason, caller string) (Row, bool) {
	if row := p.row(r, caller); row != nil {
		return *row, true
	}
	return Row{}, false
}

// Tries says whether the first failure for a reason leads to another attempt, where all that can help is at hand.
func (p *Policy) Tries(r Reason) bool {
	v := p.Decide(Finding{Reason: r, RetryAfter: time.Second}, Tally{}, Facts{HasAlternative: true}, "")
	return v.Action.Again()
}

// row is nil only for a policy that has neither a row for r nor one for Unknown.
func (p *Policy) row(r Reason, caller string) *Row {
	if len(p.index) == 0 {
		return nil
	}
	if i := p.index[p.caller(caller)][reasonIndex(r)]; i >= 0 {
		return &p.rows[i]
	}
	return nil
}

// caller is where a caller stands in callers; 0, any, for one that no row names. Callers call themselves by their file,
// too: "hooks/budget-enforcer.ts" is "budget-enforcer", "figma" is "figma-probe".
func (p *Policy) caller(name string) int {
	if i := slices.Index(p.callers, name); i >= 0 {
		return i
	}
	const least = 4 // letters that tell callers apart
	if name = folded(name); len(name) < least {
		return 0
	}
	for i, c := range p.callers {
		if c = folded(c); len(c) >= least && (strings.Contains(name, c) || strings.Contains(c, name)) {
			return i
		}
	}
	return 0
}

// folded keeps a name's letters and digits, in lower case.
func folded(name string) string {
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

// reasonIndex is where r stands in Reasons; a reason that is not on the list is Unknown.
func reasonIndex(r Reason) int {
	for i := range Reasons {
		if Reasons[i].Reason == r {
			return i
		}
	}
	return len(Reasons) - 1
}

// newPolicy puts rows together. The nearest row decides: one for the reason, for a word, for "*", each for the caller
// before any caller, a document's before its base's; last the row for Unknown.
func newPolicy(name string, rows []Row) *Policy {
	p := &Policy{name: name, rows: slices.Clone(rows), callers: []string{""}, backoff: DefaultBackoff, guards: Guards{MaxRetries: Unlimited}}
	for i := range p.rows {
		r := &p.rows[i]
		id := name + "." + r.On
		if r.Caller != "" {
			id += "@" + r.Caller
			if !slices.Contains(p.callers, r.Caller) {
				p.callers = append(p.callers, r.Caller)
			}
		}
		if r.Then.about().Action == "" || r.Then.Again() {
			r.Then = Escalate
		}
		for _, d := range []*time.Duration{&r.Wait.Default, &r.Wait.Cap, &r.Wait.Longest} {
			*d = min(max(*d, 0), maxDelay)
		}
		r.Ladder = slices.Clone(r.Ladder)
		for k := range r.Ladder {
			if r.Ladder[k].Action.about().Action == "" {
				r.Ladder[k].Action = Escalate
			}
		}
		if r.id == "" { // else it is a base's, and says so
			r.id = id
		}
	}
	for _, caller := range p.callers {
		line := make([]int16, len(Reasons))
		for i, about := range Reasons {
			line[i] = p.nearest(about.Reason, caller)
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

// nearest returns the place of the row that decides r for a caller; -1 if there is none.
func (p *Policy) nearest(r Reason, caller string) int16 {
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

// rank says how near a row is to a reason: "*" is farthest; else the later document, and in it the reason before a word.
type rank struct{ named, layer, exact int }

func (k rank) less(o rank) bool {
	switch {
	case k.named != o.named:
		return k.named < o.named
	case k.layer != o.layer:
		return k.layer < o.layer
	}
	return k.exact < o.exact
}

func (r *Row) rank(reason Reason) (rank, bool) {
	switch {
	case r.On == string(reason):
		return rank{1, r.layer, 1}, true
	case slices.Contains(r.Reasons, reason):
		return rank{1, r.layer, 0}, true
	}
	return rank{0, r.layer, 0}, r.On == "*"
}
