package fsmtest

// clusterMutants are bugs about attempts in a cluster: attempts that wait, that the runtime ends, or whose end cannot
// be confirmed.
var clusterMutants = []mutant{
	{
		"every unstoppable attempt is fenced", "fsm/ending.go",
		"if t.Travels {", "if t != nil {",
		[]string{twoAttempts, "NextAttemptOnlyAfterConfirmedStop"},
		false,
	},
	{
		"a stop looks the transport up", "fsm/ending.go",
		"if t.Travels {", "if m.cfg.CheckoutTravels {",
		[]string{twoAttempts, "NextAttemptOnlyAfterConfirmedStop", endsSomewhere}, // the last if it is never fenced
		false,
	},
	{
		"the journal has another transport than the worker", "fsm/claim.go",
		"Travels: order.Travels,", "Travels: true,",
		[]string{twoAttempts, "NextAttemptOnlyAfterConfirmedStop"},
		false,
	},
	{
		"a fence comes at once", "fsm/ending.go",
		"o.FenceAt = m.now.Add(grace + m.cfg.FenceAfter)", "o.FenceAt = m.now.Add(grace)",
		[]string{fencedCounts},
		false,
	},
	{
		"fencing is not recorded", "fsm/ending.go",
		"	if g.Fenced {\n		m.record(", "	if g.Fenced && t.Attempt > 9 {\n		m.record(",
		[]string{fencedCounts},
		false,
	},
	{
		"fenced workers are heard", "fsm/memory.go",
		"return t, t != nil && t.Attempt == n && t.State.Info().Live",
		"return t, t != nil && t.Attempt == n && (t.State.Info().Live || t.Ending.Fenced != \"\")",
		[]string{fencedCounts, "OnlyTheTable", "BudgetsNeverExceeded"},
		false,
	},
	{
		"a fenced attempt's success is handed in", "fsm/ending.go",
		"case done && g.Fenced:", "case done && g.Fenced && t.Attempt > 9:",
		[]string{fencedCounts},
		false,
	},
	{
		"accepted counts as running", "fsm/attempt.go",
		"case m.cfg.PendingTimeout > 0 && t.State == Starting:",
		"case m.cfg.PendingTimeout > 0 && t.State == Starting && t.Attempt > 9:",
		[]string{pendingWaits},
		false,
	},
	{
		"pending attempts get no time", "fsm/placement.go",
		"t.Waits, t.Until = &w, f.Until", "t.Waits, t.Until = &w, m.now",
		[]string{pendingWaits},
		false,
	},
	{
		"pending attempts wait without end", "fsm/liveness.go",
		"at = sooner(at, m.afterGrace(t.Until))", "at = sooner(at, time.Time{})",
		stuck, false,
	},
	{
		"a changed text restarts the wait", "fsm/placement.go",
		"		until = t.Until\n", "		until = m.now.Add(m.cfg.PendingTimeout)\n",
		[]string{pendingWaits},
		false,
	},
	{
		"an image that is missing is waited for like room", "fsm/placement.go",
		"		until = sooner(until, m.now.Add(imageTimeout))\n",
		"		until = sooner(until, m.now.Add(2*imageTimeout))\n",
		[]string{pendingWaits},
		false,
	},
	{
		"a life begins before anything runs", "fsm/attempt.go",
		"life = t.WatchdogAt.Sub(t.Since)", "life = t.WatchdogAt.Sub(m.now)",
		[]string{"ReadingDecidesNothing"},
		false,
	},
	{
		"the cluster's texts are ignored", "fsm/ending.go",
		"case g.Fenced, endCauses[g.Cause].reason != \"\":", "case g.Fenced:",
		[]string{clustersReason},
		false,
	},
}
