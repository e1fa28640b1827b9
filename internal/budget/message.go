package budget

import (
	"time"

	"retake/internal/bus/wire"
)

// Message is the grant as the bus and the worker's door write it.
func (g Grant) Message() wire.BudgetGrant {
	return wire.BudgetGrant{GrantID: g.ID, LeaseSeconds: g.Lease.Seconds(), WaitSeconds: g.Wait.Seconds(), Why: g.Why}
}

// RetryAfter reads how long a report says to wait; 0: it does not. What is beyond any use is cut.
func RetryAfter(r wire.BudgetReport) time.Duration {
	if r.RetryAfterSeconds == nil || *r.RetryAfterSeconds <= 0 {
		return 0
	}
	return time.Duration(min(*r.RetryAfterSeconds, longestCooldown.Seconds()) * float64(time.Second))
}
