package fsmtest

// mutant is a bug that somebody might write: old is replaced by new in one file of the production code, for one build.
type mutant struct {
	name, file string // the file below internal
	old, new   string
	caught     []string // any of these invariants may see it first
	explore    bool     // it takes an order that the simulator seldom hits: the explorer is asked
}

// The invariants that see something stuck.
var stuck = []string{endsSomewhere, timerMeansWork, "NoLabelLeftBehind"}

var mutants = []mutant{
	{
		"ack before append", "fsm/driver.go",
		"to.Acks = append(to.Acks, ack)",
		"d.ready.Acks = append(d.ready.Acks, ack)",
		[]string{ackAfterFact, "NoReportLost"},
		false,
	},
	{
		"effect before append", "fsm/driver.go",
		"to.Effects = append(to.Effects, effects...)",
		"d.ready.Effects = append(d.ready.Effects, effects...)",
		[]string{effectAfterFact},
		false,
	},
	{
		"old attempts are not fenced", "fsm/machine.go",
		"return t, t != nil && t.Attempt == n && t.State.Info().Live",
		"return t, t != nil && n > 0 && t.State.Info().Live",
		[]string{"OldAttemptsAreFenced"},
		false,
	},
	{
		"budget is off by one", "recovery/policy/guard.go",
		"s.redispatches() >= g.MaxRetries:", "s.redispatches() > g.MaxRetries:",
		[]string{"BudgetsNeverExceeded"},
		false,
	},
	{
		"paid calls are not stopped", "recovery/policy/guard.go",
		"t.PaidCalls > int64(g.PaidCallBudget):", "t.PaidCalls > 2*int64(g.PaidCallBudget):",
		[]string{"BudgetsNeverExceeded"},
		false,
	},
	{
		"a report may overspend", "fsm/attempt.go",
		"		m.accept(t, b.Report, nil)\n		m.enforceBudget(t)", "		m.accept(t, b.Report, nil)",
		[]string{"BudgetsNeverExceeded"},
		false,
	},
	{
		"no check for duplicates", "fsm/attempt.go",
		"if t.remembers(t.AttemptID(), r.Ref.ID) || !t.hasRoomFor(r.Final) {", "if !t.hasRoomFor(r.Final) {",
		[]string{"NoReportDecidedTwice"},
		false,
	},
	{
		"cooldown does not hold soft effects", "fsm/intake.go",
		"case m.githubBlocked(DoReadAnswers):", "case m == nil:",
		[]string{"NoGitHubCallInCooldown"},
		false,
	},
	{
		"cooldown does not hold the outbox", "fsm/outbox.go",
		"if p.NotBefore.After(m.now) || m.githubBlocked(p.Effect.Kind) {", "if p.NotBefore.After(m.now) {",
		[]string{"NoGitHubCallInCooldown"},
		false,
	},
	{
		"no timer for a failed effect", "fsm/liveness.go",
		"at = sooner(at, t.Outbox[0].NotBefore)", "at = sooner(at, time.Time{})",
		stuck, false,
	},
	{
		"a kill that failed is taken for confirmed", "fsm/outbox.go",
		"	case k == DoStart:\n		return false", "	case k == DoStart, k == DoStop && p.Tries > 0:\n		return false",
		[]string{"NextAttemptOnlyAfterConfirmedStop", twoAttempts},
		false,
	},
	{
		"the claim is kept after it was given back", "fsm/claim.go",
		"	m.plan(t, Effect{Kind: DoRelease, Release: &note})\n", "",
		stuck, false,
	},
	{
		"blocked without a question", "fsm/verdict.go",
		"	m.plan(t, Effect{Kind: DoEscalate, Escalation: &Escalation{", "	_ = (Effect{Kind: DoEscalate, Escalation: &Escalation{",
		[]string{"OneOpenEscalationPerBlock"},
		false,
	},
	{
		"the snapshot misses a field", "fsm/snapshot.go",
		"`json:\"paused_at,omitzero\"`", "`json:\"-\"`",
		[]string{replaySame},
		false,
	},
	{
		"the snapshot misses a task's field", "fsm/task.go",
		"`json:\"spared,omitempty\"`", "`json:\"-\"`",
		[]string{replaySame},
		false,
	},
	{
		"a takeover drops an effect", "fsm/snapshot.go",
		"	for _, t := range tasks {\n", "	for _, t := range tasks {\n		t.Outbox = t.Outbox[:min(len(t.Outbox), 1)-min(len(t.Outbox), 1)*int(t.Seq%2)]\n",
		[]string{"OutboxSurvives", replaySame},
		false,
	},
	{
		"the watchdog is the last attempt's", "fsm/apply.go",
		"t.UpAt, t.WatchdogAt = m.now, f.WatchdogAt", "t.UpAt = m.now",
		[]string{"DeadlinesAreTheAttemptsOwn", replaySame},
		false,
	},
	{
		"a breaker that never half-opens", "recovery/breaker.go",
		"case !b.Until.IsZero() && now.Before(b.Until):\n		return BreakerOpen", "case !b.Until.IsZero():\n		return BreakerOpen",
		stuck, false,
	},
	{
		"more than one canary", "fsm/schedule.go",
		"		m.makeCanary(t)\n", "		_ = m.makeCanary\n",
		[]string{"NothingIntoAnOutage"},
		false,
	},
	{
		"an incident spares an overspent task", "fsm/breaker.go",
		"		return v, \"\"\n	case b.State(",
		"		if b.State(m.now) != recovery.BreakerOpen {\n			return v, \"\"\n		}\n	case b.State(",
		[]string{"BudgetsNeverExceeded"},
		false,
	},
	{
		"an incident ignores the repository", "fsm/breaker.go",
		"return i.Repo == \"\" || i.Repo == t.Key.Repo()", "return i.Repo == \"\" || t != nil",
		[]string{"IncidentsKeepToTheirRepository"},
		false,
	},
	{
		"who waits first keeps the others back", "fsm/schedule.go",
		"for _, t := range m.ready.tasks {", "for _, t := range m.ready.tasks[:min(1, len(m.ready.tasks))] {",
		[]string{"IncidentsKeepToTheirRepository"},
		false,
	},
	{
		"the model is blamed for the director's failures", "recovery/origin.go",
		"		return o.Uses\n", "		return ModelDefault\n",
		[]string{"IncidentsAreOfWhatFailed"},
		false,
	},
	{
		"the model is blamed for any connection", "recovery/origin.go",
		"case o.Stage == \"CODE\" && about.Scope != OneRemote:", "case o.Stage == \"CODE\":",
		[]string{"IncidentsAreOfWhatFailed"},
		false,
	},
	{
		"a limit in a check closes the model", "fsm/verdict.go",
		"return t.failedResource(f.Reason, stage)", "return cmp.Or(t.failedResource(f.Reason, stage), recovery.ModelDefault)",
		[]string{"IncidentsAreOfWhatFailed"},
		false,
	},
	{
		"one failure undoes the healing", "recovery/breaker.go",
		"case state == BreakerHalfOpen && b.Canary == task:\n		return b.opened(now)", "case state == BreakerHalfOpen && b.Canary == task, state == BreakerRamp:\n		return b.opened(now)",
		[]string{"HealedMeansHealed"},
		false,
	},
	{
		"healing clears no strikes", "recovery/breaker.go",
		"b.Until, b.RampFrom, b.Strikes = time.Time{}, now, nil", "b.Until, b.RampFrom = time.Time{}, now",
		[]string{"HealedMeansHealed"},
		false,
	},
	{
		"a checkout heals nothing", "fsm/attempt.go",
		"		m.noteHealthEvidence(t, recovery.Finding{}, \"\")\n", "",
		[]string{"HealedMeansHealed"},
		false,
	},
	{
		"a deterministic failure keeps others back", "fsm/breaker.go",
		"i.Breaker.Told = f.Reason.Deterministic()", "i.Breaker.Told = false",
		[]string{"DeterministicIsOnlyTold", "IncidentsKeepToTheirRepository"},
		false,
	},
	{
		"usage is not durable", "fsm/apply.go",
		"		t.Used = f.Usage\n", "		t.soft.Usage = &f.Usage\n",
		[]string{"UsageSurvivesCrashes"},
		false,
	},
	{
		"a crash forgets the attempt's usage", "fsm/verdict.go",
		"return *t.Used.Max(t.soft.Usage)", "return *new(recovery.Usage).Max(t.soft.Usage)",
		[]string{"UsageSurvivesCrashes"},
		false,
	},
	{
		"jitter from outside the event", "fsm/outbox.go",
		"d.Until = m.now.Add(m.cfg.Retry.Delay(d.Tries, p.Effect.ID))",
		"drawn++\n		d.Until = m.now.Add(m.cfg.Retry.Delay(d.Tries, p.Effect.ID) + drawn)",
		[]string{"DecisionsComeFromTheEvent"},
		false,
	},
	{
		"no grace after a suspension", "fsm/liveness.go",
		"			t.soft.slack += r.Gap\n		}\n	}\n	m.grantGrace()", "			t.soft.slack += r.Gap\n		}\n	}",
		[]string{"DeadlinesAreTheAttemptsOwn"},
		false,
	},
	{
		"killed by one witness", "fsm/liveness.go",
		"case t.soft.listedAt.Before(t.Since):", "case t.soft.listedAt.Before(t.Since) && t.soft.listedAt.IsZero():",
		[]string{"KillNeedsTwoWitnesses"},
		false,
	},
	{
		"a failure beats a success", "fsm/apply.go",
		"OutcomeFailed: 1, OutcomeOK: 2,", "OutcomeFailed: 2, OutcomeOK: 1,",
		[]string{"SuccessIsDelivered"},
		false,
	},
	{
		"a re-read holds no slot", "fsm/task.go",
		"return t.State.Info().Slot || t.State == Backoff && (t.plans(DoClaim) || t.plans(DoRecheck))", "return t.State.Info().Slot",
		[]string{"SlotsNeverExceeded"},
		false,
	},
	{
		"stale while the model is closed", "fsm/claim.go",
		"return later(later(later(t.Since, t.Until), m.dispatchableSince), m.modelOpensAt()).Add(m.cfg.ClaimStale)",
		"return later(later(t.Since, t.Until), m.dispatchableSince).Add(m.cfg.ClaimStale)",
		[]string{"StaleOnlyWhenItCouldHaveGoneOn"},
		false,
	},
	{
		"a stale director welcomes", "fsm/liveness.go",
		"	if len(m.facts) == 0 {\n		m.record(WorkerAnswered{", "	if m == nil {\n		m.record(WorkerAnswered{",
		[]string{twoAttempts},
		true,
	},
	{
		"memory without a bound", "fsm/apply.go",
		"t.History = t.History[max(0, len(t.History)-maxHistory):]", "_ = maxHistory",
		[]string{"NothingUnbounded"},
		false,
	},
	{
		"an effect is emitted twice", "fsm/outbox.go",
		"	t.soft.inFlight = p.Effect.ID\n", "	if p.Tries == 0 {\n		t.soft.inFlight = p.Effect.ID\n	}\n",
		[]string{"EffectIDsAreForEver", effectAfterFact, endsSomewhere, "CommandsCountOnce"},
		false,
	},
	{
		"a command counts each time that it is read", "fsm/command.go",
		"\tcase before != nil: //",
		"\tcase before != nil && before.Refused != \"\": //",
		[]string{"CommandsCountOnce"},
		false,
	},
	{
		"a command is lost while an effect is at work", "fsm/command.go",
		"\t\tdecided = m.commentSeen(s) && decided",
		"\t\tm.commentSeen(s)",
		[]string{"CommandsCountOnce", endsSomewhere},
		false,
	},
	{
		"a refused command is answered as done", "fsm/command.go",
		"m.reply(t, s, before.Refused)",
		"m.reply(t, s, \"\")",
		[]string{"CommandsCountOnce"},
		false,
	},
	{
		"a review counts again", "fsm/review.go",
		"if c.ID > t.Reviewed.Change {",
		"if c.ID > 0 {",
		[]string{"ReviewsCountOnce"},
		false,
	},
	{
		"failing checks are not noted", "fsm/review.go",
		"\t\tr.Checks = b.Head\n",
		"",
		[]string{"ReviewsCountOnce"},
		false,
	},
	{
		"a merge is seen only in review", "fsm/review.go",
		"!slices.Contains(idle, t.State) || b.AskedAt",
		"!slices.Contains(idle[2:3], t.State) || b.AskedAt",
		[]string{"MergedIsTheEnd"},
		false,
	},
	{
		"what is in review holds a slot", "fsm/state.go",
		"Name: \"InReview\", Label: LabelReview,",
		"Name: \"InReview\", Label: LabelReview, Slot: true,",
		[]string{endsSomewhere, "SlotsNeverExceeded"},
		false,
	},
	{
		"a question is raised again and again", "fsm/apply.go",
		"\t\tt.Until = time.Time{} // once\n",
		"",
		[]string{"OneReminder", "EffectIDsAreForEver", endsSomewhere},
		false,
	},
	{
		"reminded after the answer", "fsm/outbox.go",
		", k == DoRemind && t.State != Blocked:",
		":",
		[]string{"OneReminder"},
		false,
	},
	{
		"a snooze is over at once", "fsm/review.go",
		"m.move(t, OnSnoozed, by, until)",
		"m.move(t, OnSnoozed, by, m.now)",
		[]string{"SnoozedSleeps"},
		false,
	},
	{
		"a snooze grants what was refused", "fsm/review.go",
		"\tif t.State == Blocked {\n\t\tm.record(TallyReset{OfTask: OfTask{t.Key}, By: by, Next: Next{Action: t.retryAction()}})\n\t}\n",
		"",
		[]string{"BudgetsNeverExceeded"},
		false,
	},
	{
		"a question forgets the pull request", "fsm/apply.go",
		"\tf.Work.PullRequest = cmp.Or(f.Work.PullRequest, t.Work.PullRequest)\n",
		"",
		[]string{"WorkGoesOntoWork"},
		false,
	},
	{
		"a merge counts as delivered", "fsm/attempt.go",
		"&& !e.Delivery.Nothing && !e.Delivery.Merged",
		"&& !e.Delivery.Nothing",
		[]string{"NothingUnvalidated"},
		false,
	},
}

// mutantTails are declarations that some mutants need.
var mutantTails = map[string]string{"jitter from outside the event": "\nvar drawn time.Duration\n"}
