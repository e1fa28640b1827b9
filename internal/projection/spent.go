package projection

import (
	"retake/internal/fsm"
	"retake/internal/recovery"
)

// Spent returns the usage that a fact adds to the bill. Every view of cost, tokens and paid calls adds it up: metrics,
// page, report, budget and explain. Answers from people do not reset the sum, unlike the usage that counts against a
// budget (recovery.Tally).
func Spent(f fsm.Fact) recovery.Usage {
	u, ok := f.(fsm.UsageCounted)
	if !ok || !u.Ended || u.PaidCalls != nil {
		return recovery.Usage{}
	}
	if u.Usage.CostUSD >= recovery.MaxCost { // a damaged figure, which budgets ignore as well
		u.Usage.CostUSD = 0
	}
	return recovery.Usage{}.Plus(u.Usage) // without negative amounts
}
