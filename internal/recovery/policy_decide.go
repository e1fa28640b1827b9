package recovery

import (
	"cmp"
	"strings"
	"time"
)

// Facts are what besides the finding decides.
type Facts struct {
	HasAlternative   bool   // another model is configured
	AlreadyCompacted bool   // the context was shortened before
	Caller           string // what called, where a policy tells callers apart
	BudgetLeft       *int   // attempts that another budget still allows; nil: not known
}

// Verdict is what to do about a failure, and why.
type Verdict struct {
	Action      Action        `json:"action"`
	Delay       time.Duration `json:"delay"`     // before the next attempt; 0 when there is none
	DelayMin    time.Duration `json:"delay_min"` // the least and the most that jitter could have made of Delay
	DelayMax    time.Duration `json:"delay_max"`
	Charges     Cause         `json:"charges,omitempty"` // the meter that the next attempt is charged to; empty: free
	Reason      Reason        `json:"reason"`
	Was         Reason        `json:"was,omitempty"` // the reason before its retries were used up
	Why         string        `json:"why"`
	Row         string        `json:"row"`            // "<policy>.<row>"
	Veto        string        `json:"veto,omitempty"` // the guard that forbade what the row wanted
	Fatal       bool          `json:"fatal,omitempty"`
	NextIfAgain Action        `json:"next_if_again,omitempty"` // what the same failure would lead to next time
	Cools       string        `json:"cools,omitempty"`         // resource to close for everybody for Delay
	Ask         string        `json:"ask,omitempty"`           // what a person is asked, where the policy says
	Counter     string        `json:"counter,omitempty"`       // of the tally, that this failure adds to
	Error       bool          `json:"error,omitempty"`         // this failure counts as an error in a row
	Restarts    bool          `json:"restarts,omitempty"`      // backoffs begin at their first step again
}

// Counters that are not a row's.
const (
	taskCounter    = "task"
	sessionCounter = "session"
	callCounter    = "call:"
)

// signatureCounter names the counter of a signature, whoever made it.
func signatureCounter(signature string) string {
	if strings.HasPrefix(signature, "sig:") {
		return short(signature)
	}
	return "sig:" + short(signature)
}

// short bounds a name that comes from outside; what JSON cannot hold is replaced, so that it is read back as it was.
func short(name string) string {
	const most = 64
	if len(name) > most {
		name = name[:most]
	}
	return strings.ToValidUTF8(name, "?")
}

func ofCall(counter string) bool { return strings.HasPrefix(counter, callCounter) }

// maxHops bounds how often used-up rows may change the reason.
const maxHops = 8

// Decide says what a finding leads to. Whatever the policy says: it grants at most engineCap attempts to one tally, none
// that a guard forbids, no delay beyond the row's or the backoff's cap, and none shorter than a stated wait that the row
// honours. The seed (task and attempt) feeds the jitter.
func (p *Policy) Decide(f Finding, t Tally, facts Facts, seed string) Verdict {
	s := state{t: &t}
	v, row, n := p.choose(f, &s, facts)
	if v.Action.Again() {
		p.delay(&v, row, f, n, seed)
		if v.Action == WaitReset || v.Action == CoolDown {
			v.Why = row.waits(&v, f)
		}
	}
	next := facts
	next.AlreadyCompacted = facts.AlreadyCompacted || v.Action == RetryCompact
	if facts.BudgetLeft != nil && v.Action.Again() {
		left := *facts.BudgetLeft - 1
		next.BudgetLeft = &left
	}
	if s.ahead = &v; f.Signature != "" {
		s.same = signatureCounter(f.Signature)
	}
	again, _, _ := p.choose(f, &s, next)
	v.NextIfAgain = again.Action
	return v
}

// choose returns the verdict without its delay, the row that made it, and the step of its backoff.
func (p *Policy) choose(f Finding, s *state, facts Facts) (v Verdict, row *Row, step int) {
	v = Verdict{Action: Escalate, Reason: f.Reason, Error: true}
	row = p.row(f.Reason, facts.Caller)
	if row == nil {
		v.Row, v.Why = p.name, string(f.Reason)+": the policy has no row for it"
		return v, nil, 0
	}
	usedUp := false
	for range maxHops {
		v.Counter = row.counter(f, facts)
		count := s.count(v.Counter)
		rung, at, tooLong := row.rung(s, &count, v.Counter, f, facts)
		if rung != nil {
			if v.Action, step = rung.Action, count.Step+1; v.Action.about().Free {
				step = count.N + 1 // waits restart what other actions wait, not themselves
			}
			if at.total < 0 && p.guards.MaxRetries >= 0 && !rung.Action.about().Free {
				at.n, at.total = s.redispatches()+1, p.guards.MaxRetries // the only bound there is
			}
			row.grant(&v, rung, at)
			break
		}
		v.Action, v.Row, v.Fatal, v.Ask = row.Then, row.id, row.Fatal, row.Ask
		v.Why = row.exhausted(v.Reason, at, tooLong, f)
		if row.Becomes == "" || row.Becomes == v.Reason || tooLong {
			break
		}
		next := p.row(row.Becomes, facts.Caller)
		if next == nil {
			break
		}
		if v.Was == "" {
			v.Was, usedUp = v.Reason, at.total > 0
		}
		v.Reason, row = row.Becomes, next
	}
	if v.Was != "" {
		was := string(v.Was)
		if usedUp {
			was += ": its retries are used up"
		} else {
			was += ": the policy allows no retry"
		}
		v.Why = was + "; now " + v.Why
	}
	v.Error = !v.Action.about().Free || p.guards.WaitsAreErrors
	p.bound(&v, s, facts)
	return v, row, step
}

// grant fills in what a rung leads to.
func (r *Row) grant(v *Verdict, g *Rung, at rungPlace) {
	about := g.Action.about()
	v.Row, v.Fatal, v.Ask = r.id, false, ""
	switch {
	case !about.Again:
		v.Fatal, v.Ask = r.Fatal, r.Ask
	case about.Free || r.Charges == Free:
	case r.Charges != "":
		v.Charges = r.Charges
	default:
		d, _ := Describe(v.Reason)
		v.Charges = d.Cause
	}
	if about.Again {
		v.Restarts = r.Restarts && about.Free
		if about.Free {
			v.Cools = r.Cools
		}
	}
	v.Why = at.say(v.Reason, r, g)
}

// bound lets the guards speak, and goes on after errors if that is wanted.
func (p *Policy) bound(v *Verdict, s *state, facts Facts) {
	if v.Action.Again() || v.Action == Skip {
		if guard, to, why := p.veto(v, s, facts); guard != "" {
			if to == "" || to.Again() {
				to = Escalate
			}
			v.Action, v.Veto, v.Charges, v.Cools, v.Restarts, v.Error = to, guard, "", "", false, true
			v.Why, v.Ask = string(v.Reason)+": "+why, cmp.Or(guardAsks[guard], v.Ask)
		}
	}
	if p.goesOn && (v.Fatal || v.Action == Abort || v.Action == Stop) {
		v.Fatal = false
		if v.Action == Abort || v.Action == Stop {
			v.Action = Skip
		}
		v.Why += "; continue_on_error goes on"
	}
}

// counter names the counter of the tally that a failure adds to.
func (r *Row) counter(f Finding, facts Facts) string {
	switch r.Count {
	case ByCall:
		return callCounter + short(facts.Caller) + "/" + r.On
	case ByTask:
		return taskCounter
	case BySession:
		return sessionCounter
	case BySignature:
		if f.Signature != "" {
			return signatureCounter(f.Signature)
		}
	}
	if r.Caller != "" {
		return r.On + "@" + r.Caller
	}
	return r.On
}

// delay fills in how long the next attempt waits.
func (p *Policy) delay(v *Verdict, r *Row, f Finding, step int, seed string) {
	b := p.backoff
	if r.Backoff != nil {
		b = *r.Backoff
	}
	stated := max(f.RetryAfter, 0)
	if !v.Action.about().Same || r.Wait.Longest <= 0 {
		stated = 0
	}
	if !v.Action.about().Free {
		lo, hi := b.Range(step)
		v.DelayMin, v.DelayMax = max(lo, stated), max(hi, stated)
		v.Delay = max(b.Delay(step, seed), stated)
		return
	}
	wait := stated
	if wait == 0 {
		wait = r.Wait.unstated(step)
	}
	v.Delay, v.DelayMin, v.DelayMax = wait, wait, wait
	if r.Wait.Backoff {
		lo, hi := b.Range(1)
		v.Delay, v.DelayMin, v.DelayMax = wait+b.Delay(1, seed), wait+lo, wait+hi
	}
}

// unstated is how long is waited when nothing states it.
func (w Wait) unstated(step int) time.Duration {
	first, most := w.Unstated()
	_, d := Backoff{Initial: first, Max: most, Factor: 2}.Range(step)
	return d
}

// Unstated returns the first wait that nothing states, and the most that doubling it each time comes to.
func (w Wait) Unstated() (first, most time.Duration) {
	first, most = w.Default, w.Cap
	if first <= 0 {
		first = patience
	}
	if most <= 0 {
		most = window
	}
	if w.Longest > 0 {
		most = min(most, w.Longest)
	}
	return min(first, most), most
}

// patience is the first wait that nothing states: the shortest window in which providers commonly count requests.
const patience = time.Minute

// window bounds what is waited when nothing states for how long: the longest window in which providers commonly count
// requests (GitHub's primary limit) is an hour.
const window = time.Hour
