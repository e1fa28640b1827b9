package policy

import (
	"cmp"
	"time"

	"retake/internal/recovery"
)

// DecisionInput contains the inputs of a decision other than the finding and the tally.
type DecisionInput struct {
	HasAlternative   bool   // another model is configured
	AlreadyCompacted bool   // an earlier attempt ran with a shortened context
	Caller           string // the component that failed, for rows restricted to a caller
	BudgetLeft       *int   // attempts left in another budget; nil if unknown
}

// maxHops limits how often rows with the key "becomes" may change the reason.
const maxHops = 8

// Decide returns the verdict on a finding. For any policy, it grants at most engineCap attempts to one tally, respects
// the guards, and keeps the delay within the cap of the row or the backoff. The delay is never shorter than a stated
// wait that the row honours. The seed (task and attempt) determines the jitter.
func (p *Policy) Decide(f recovery.Finding, t recovery.Tally, facts DecisionInput, seed string) recovery.Verdict {
	s := state{t: &t}
	v, row, n := p.choose(f, &s, facts)
	if v.Action.Again() {
		p.delay(&v, row, f, n, seed)
		if v.Action == recovery.WaitReset || v.Action == recovery.CoolDown {
			v.Why = row.describeWait(&v, f)
		}
	}
	next := facts
	next.AlreadyCompacted = facts.AlreadyCompacted || v.Action == recovery.RetryCompact
	if facts.BudgetLeft != nil && v.Action.Again() {
		next.BudgetLeft = new(*facts.BudgetLeft - 1)
	}
	if s.ahead = &v; f.Signature != "" {
		s.same = recovery.SignatureCounter(f.Signature)
	}
	again, _, _ := p.choose(f, &s, next)
	v.NextIfAgain = again.Action
	return v
}

// choose returns the verdict without its delay, the row that made it, and the step of its backoff.
func (p *Policy) choose(f recovery.Finding, s *state, facts DecisionInput) (v recovery.Verdict, row *Row, step int) {
	v = recovery.Verdict{Action: recovery.Escalate, Reason: f.Reason, Error: true}
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
			if v.Action, step = rung.Action, count.Step+1; v.Action.About().Free {
				step = count.N + 1 // a wait only restarts the backoff of other actions
			}
			if at.total < 0 && p.guards.MaxRetries >= 0 && !rung.Action.About().Free {
				at.n, at.total = s.redispatches()+1, p.guards.MaxRetries // this is the policy's only limit
			}
			row.grant(&v, rung, at)
			break
		}
		v.Action, v.Row, v.Fatal, v.Ask = row.Then, row.id, row.Fatal, row.Ask
		v.Why = row.describeExhausted(v.Reason, at, tooLong, f)
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
	v.Error = !v.Action.About().Free || p.guards.WaitsAreErrors
	p.bound(&v, s, facts)
	return v, row, step
}

// grant sets the verdict's fields from a step.
func (r *Row) grant(v *recovery.Verdict, g *Rung, at ladderPosition) {
	about := g.Action.About()
	v.Row, v.Fatal, v.Ask = r.id, false, ""
	switch {
	case !about.Again:
		v.Fatal, v.Ask = r.Fatal, r.Ask
	case !about.Free:
		d, _ := recovery.Describe(v.Reason)
		v.Charges = d.Cause
	}
	if about.Again {
		v.Restarts = r.Restarts && about.Free
		if about.Free {
			v.Cools = r.Cools
		}
	}
	v.Why = at.describe(v.Reason, r, g)
}

// bound applies the guards, and lets the run continue after errors if the policy permits it.
func (p *Policy) bound(v *recovery.Verdict, s *state, facts DecisionInput) {
	if v.Action.Again() || v.Action == recovery.Skip {
		if guard, to, why := p.veto(v, s, facts); guard != "" {
			if to == "" || to.Again() {
				to = recovery.Escalate
			}
			v.Action, v.Veto, v.Charges, v.Cools, v.Restarts, v.Error = to, guard, "", "", false, true
			v.Why, v.Ask = string(v.Reason)+": "+why, cmp.Or(guardAsks[guard], v.Ask)
		}
	}
	if p.continueOnError && (v.Fatal || v.Action == recovery.Abort || v.Action == recovery.Stop) {
		v.Fatal, v.Continued = false, true
		if v.Action == recovery.Abort || v.Action == recovery.Stop {
			v.Action = recovery.Skip
		}
		v.Why += "; the run continues, because continue_on_error is set"
	}
}

// counter returns the name of the counter that tallies a failure.
func (r *Row) counter(f recovery.Finding, facts DecisionInput) string {
	switch r.Count {
	case ByCall:
		return recovery.CallCounter(facts.Caller, r.On)
	case ByTask:
		return recovery.TaskCounter
	case BySession:
		return recovery.SessionCounter
	case BySignature:
		if f.Signature != "" {
			return recovery.SignatureCounter(f.Signature)
		}
	}
	if r.Caller != "" {
		return r.On + "@" + r.Caller
	}
	return r.On
}

// delay sets the verdict's wait before the next attempt.
func (p *Policy) delay(v *recovery.Verdict, r *Row, f recovery.Finding, step int, seed string) {
	b := p.backoff
	if r.Backoff != nil {
		b = recovery.Backoff(*r.Backoff)
	}
	stated := max(f.RetryAfter, 0)
	if !v.Action.About().Same || r.Wait.Longest <= 0 {
		stated = 0
	}
	if !v.Action.About().Free {
		lo, hi := b.Range(step)
		v.DelayMin, v.DelayMax = max(lo, stated), max(hi, stated)
		v.Delay = max(b.Delay(step, seed), stated)
		return
	}
	wait := stated
	switch {
	case wait == 0:
		wait = r.Wait.afterSteps(step)
	case wait == recovery.Now && step > 1: // an immediate retry has already failed
		wait = r.Wait.afterSteps(step - 1)
	}
	v.Delay, v.DelayMin, v.DelayMax = wait, wait, wait
	if r.Wait.Backoff {
		lo, hi := b.Range(1)
		v.Delay, v.DelayMin, v.DelayMax = wait+b.Delay(1, seed), wait+lo, wait+hi
	}
}

// afterSteps returns the wait at a step of the backoff if the error does not state one.
func (w Wait) afterSteps(step int) time.Duration {
	first, most := w.Unstated()
	_, d := recovery.Backoff{Initial: first, Max: most, Factor: 2}.Range(step)
	return d
}

// Unstated returns the first wait and the longest wait after doubling, for errors that do not state a wait.
func (w Wait) Unstated() (first, most time.Duration) {
	first, most = w.Default, w.Cap
	if first <= 0 {
		first = firstUnstated
	}
	if most <= 0 {
		most = longestUnstated
	}
	if w.Longest > 0 {
		most = min(most, w.Longest)
	}
	return min(first, most), most
}

// firstUnstated is the default first wait if the error does not state one. Providers' limits commonly apply to a minute
// or longer.
const firstUnstated = time.Minute

// longestUnstated is the default maximum wait if the error does not state one. Providers' limits commonly apply to an
// hour or less, such as GitHub's primary limit.
const longestUnstated = time.Hour
