package fsmtest

// livenessMutants are bugs that stop or starve tasks. Only the invariants about progress check their worlds, so that
// another invariant cannot see the bug first.
var livenessMutants = []mutant{
	{
		"claims starve finished work", "fsm/schedule.go",
		"return m.finished < max(leastFinished, m.cfg.MaxWorkers) && !m.closed", "return !m.closed",
		[]string{workHandedIn},
		false,
	},
	{
		"claims wait for finished work that failed", "fsm/schedule.go",
		"&& t.Outbox[0].Tries == 0\n", "&& t.Outbox[0].Tries == 0 || t.State == Blocked\n",
		stuck, false,
	},
	{
		"a long queue starves another repository", "fsm/schedule.go",
		"cmp.Compare(m.slots.ofRepo(t), m.slots.ofRepo(u))",
		"cmp.Compare(m.slots.ofRepo(u), m.slots.ofRepo(t))",
		[]string{reposTakeTurns},
		false,
	},
	{
		"a claim does not end its repository's turn", "fsm/recorder.go",
		"Turn: t.State == Queued && to == Claiming", "Turn: t.State == Queued && to != Claiming",
		[]string{reposTakeTurns},
		false,
	},
	{
		"a restart forgets the turns of repositories", "fsm/memory.go",
		"`json:\"served,omitempty\"`", "`json:\"-\"`",
		[]string{reposTakeTurns},
		false,
	},
	{
		"a waiting task has no timer", "fsm/liveness.go",
		"(t.State == Backoff && t.Until.After(m.now) || t.State == Parked", "(t.State == Parked",
		stuck, false,
	},
	{
		"a blocked task's slot is never freed", "fsm/queue.go",
		"	t.slot = holds\n", "	if t.slot = holds; t.State == Blocked {\n		return\n	}\n",
		stuck, false,
	},
	{
		"a failed effect blocks its outbox", "fsm/outbox.go",
		"		m.deferEffect(t, p, e.Failure)\n",
		"		m.deferEffect(t, p, e.Failure)\n		t.soft.inFlight = e.Effect\n",
		stuck, false,
	},
	{
		"the wait before a retry grows without limit", "fsm/outbox.go",
		"d.Until = m.now.Add(wait)\n", "d.Until = m.now.Add(wait << min(2*d.Tries, 16))\n",
		stuck, false,
	},
	{
		"a success prolongs its incident", "recovery/breaker.go",
		"b.Until, b.RampFrom, b.Strikes = time.Time{}, now, nil",
		"b.Until = now.Add(24 * time.Hour)",
		stuck, false,
	},
	{
		"a canary that left is not replaced", "recovery/breaker.go",
		"	if b.Canary == task {\n		b.Canary, b.CanaryUntil = \"\", time.Time{}\n",
		"	if b.Canary == task {\n		b.CanaryUntil = b.CanaryUntil.Add(1000 * CanaryFor)\n",
		stuck, false,
	},
	{
		"a cooldown starts again at its end", "fsm/liveness.go",
		"		m.githubClosed = false\n",
		"		m.githubClosed = false\n" +
			"		m.coolDown(Cooldown{Resource: GitHubWrite, Until: m.now.Add(time.Hour)})\n",
		stuck, false,
	},
	{
		"the end of a phase wakes no task", "fsm/recorder.go",
		"		m.revisitAll() // the phase determines which deadlines apply\n", "",
		stuck, false,
	},
	{
		"a mended contract goes unnoticed", "fsm/attempt.go",
		"\"\" && i.Breaker.Held", "\"\" && m == nil",
		append([]string{contractsHold}, stuck...), false,
	},
}

// live names the mutants of livenessMutants.
var live = func() map[string]bool {
	names := map[string]bool{}
	for _, m := range livenessMutants {
		names[m.name] = true
	}
	return names
}()
