package projection

import (
	"retake/internal/fsm"
	"retake/internal/recovery"
)

// Spent returns the usage that a fact adds to the total. Every view of cost, tokens and paid calls adds up these
// values. Answers from people do not reset this total, unlike the usage that counts against a budget
// (recovery.Tally).
func Spent(f fsm.Fact) recovery.Usage {
	u, ok := f.(fsm.UsageCounted)
	if !ok || !u.Ended || u.PaidCalls != nil {
		return recovery.Usage{}
	}
	return u.Usage.Plausible() // as in budgets
}
