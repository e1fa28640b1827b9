package policy

import (
	"slices"
	"strings"

	"retake/internal/recovery"
)

// ladderPosition is a failure's position on a ladder.
type ladderPosition struct {
	// The failure is number n of the total that the ladder handles. On an endless ladder, n and total count only the
	// failures handled by the current step. If that step is endless, total is Unlimited.
	n, total int
	rungs    int // number of steps that apply
	ends     int // total number of failures that do not lead to another attempt
	before   int // attempts granted by the steps before this one
}

// rung returns the step for one more failure of a counter, or nil if the ladder is exhausted. If a step's conditions do
// not hold, the step counts only failures that it has already handled, so that the following steps keep their number of
// attempts. tooLong means that a step would apply if the stated wait were shorter.
func (r *Row) rung(s *state, c *recovery.Count, of string, f recovery.Finding,
	facts DecisionInput,
) (g *Rung, at ladderPosition, tooLong bool) {
	at.n = c.N + 1
	before, endless := 0, false
	for i := range r.Ladder {
		rung := &r.Ladder[i]
		if holds := met(rung.When, f, facts); !holds || !r.reaches(rung.Action, f) {
			tooLong = tooLong || holds && rung.Times != 0
			if rung.Times != 0 {
				used := r.usedUp(i, s.took(c, of, rung.Action), f, facts)
				if before += used; !rung.Action.Again() {
					at.ends += used
				}
			}
			continue
		}
		if rung.Times == 0 {
			continue
		}
		at.rungs++
		here := g == nil && (rung.Times < 0 || c.N < before+rung.Times)
		if here {
			g, at.before = rung, before-at.ends
		}
		if rung.Times < 0 {
			if endless = true; here {
				at.n, at.total = c.N-before+1, recovery.Unlimited
			}
			break
		}
		if !rung.Action.Again() {
			at.ends += rung.Times
		}
		if before += rung.Times; here && r.endlessAfter(i, f, facts) {
			at.n, at.total, endless = c.N-(before-rung.Times)+1, rung.Times, true
			break
		}
	}
	if !endless {
		at.total = before
	}
	return g, at, tooLong && g == nil
}

// usedUp returns how often step i, which does not apply now, was used earlier. taken counts all uses of its action;
// usedUp subtracts those by other steps with the same action.
func (r *Row) usedUp(i, taken int, f recovery.Finding, facts DecisionInput) int {
	for k := range r.Ladder {
		other := &r.Ladder[k]
		switch there := met(other.When, f, facts) && r.reaches(other.Action, f); {
		case other.Action != r.Ladder[i].Action || k > i && !there:
		case other.Times < 0:
			if there || k < i {
				return 0
			}
		case there || k < i:
			taken -= other.Times
		}
	}
	if r.Ladder[i].Times > 0 {
		taken = min(taken, r.Ladder[i].Times)
	}
	return max(taken, 0)
}

// endlessAfter reports whether an unlimited step comes after step i.
func (r *Row) endlessAfter(i int, f recovery.Finding, facts DecisionInput) bool {
	return slices.ContainsFunc(r.Ladder[i+1:], func(g Rung) bool { return g.Times < 0 && met(g.When, f, facts) })
}

// reaches reports whether the row honours the stated wait. It returns true if no wait is stated, or if the action
// ignores waits.
func (r *Row) reaches(a recovery.Action, f recovery.Finding) bool {
	return !a.About().Same || r.Wait.Longest <= 0 || f.RetryAfter <= r.Wait.Longest
}

func met(when []Condition, f recovery.Finding, facts DecisionInput) bool {
	holds := map[Condition]bool{
		HasAlternative: facts.HasAlternative, AlreadyCompacted: facts.AlreadyCompacted, ResetStated: f.RetryAfter > 0,
	}
	return !slices.ContainsFunc(when, func(c Condition) bool {
		name, negated := strings.CutPrefix(string(c), "!")
		return holds[Condition(name)] == negated
	})
}
