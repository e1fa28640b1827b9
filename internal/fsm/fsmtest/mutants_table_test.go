package fsmtest

import "slices"

// mutant is a plausible bug. For one build, it replaces old by new in one file of the production code.
type mutant struct {
	name, file string // path of the file below internal
	old, new   string
	caught     []string // invariants that may detect it first
	explore    bool     // the simulator seldom reaches the necessary order, so the explorer searches for it
}

// stuck lists the invariants that detect a task without progress.
var stuck = []string{endsSomewhere, timerMeansWork, labelLeft}

// lossMutants need worlds that lose their journal.
var lossMutants = map[string]bool{
	"numbers restart with the journal": true, "a question is lost with the journal": true,
	"a review is lost with the journal": true,
	"an old journal wins":               true, "half a claim is ignored": true,
	"a partial rebuild counts as complete":                  true,
	"a rebuild does not record its size":                    true,
	"a start with a finished container is repeated":         true,
	"a question without its label is lost with the journal": true, "an answer is lost with the journal": true,
	"numbers fall below the branches": true,
}

// mutants lists all mutants, in the order of testdata/searched.md.
var mutants = slices.Concat(durableMutants, attemptMutants, sharedMutants, clusterMutants, livenessMutants,
	projectMutants)

// mutantTails are declarations that some mutants need.
var mutantTails = map[string]string{"jitter from outside the event": "\nvar drawn time.Duration\n"}

// durableMutants are bugs about the journal, rebuilds, snapshots, the lease, and repeated reading.
var durableMutants = []mutant{
	{
		"numbers restart with the journal", "fsm/rebuild.go",
		"	t.Attempt += began\n", "	t.Attempt += began - began\n",
		[]string{foundAgain, "NoAttemptRunsTwice"},
		false,
	},
	{
		"a question is lost with the journal", "fsm/rebuild.go",
		"return f.asksLast() && f.Landed && !f.has(LabelClaimed)",
		"return f.asksLast() && f.Landed && f.has(LabelClaimed)",
		[]string{foundAgain, "NoQuestionTwice"},
		false,
	},
	{
		"a question without its label is lost with the journal", "fsm/rebuild.go",
		"return f.asksLast() && !f.Landed }", "return f.asksLast() && !f.Landed && f.has(LabelBlocked) }",
		[]string{foundAgain, "NoQuestionTwice"},
		false,
	},
	{
		"numbers fall below the branches", "fsm/rebuild.go",
		"t.Attempt = max(t.Attempt, f.Branch)", "t.Attempt = max(t.Attempt, f.Branch-9)",
		[]string{foundAgain, "NoAttemptRunsTwice"},
		false,
	},
	{
		"an answer is lost with the journal", "fsm/rebuild.go",
		"return f.isAsked() && !f.Answered && (", "return f.isAsked() && (",
		[]string{foundAgain},
		false,
	},
	{
		"a review is lost with the journal", "fsm/rebuild.go",
		"return f.Work.PullRequest > 0 && f.has(LabelReview) && !f.has(LabelClaimed)",
		"return f.Work.PullRequest > 0 && f.has(LabelReview) && f.has(LabelClaimed)",
		[]string{foundAgain},
		false,
	},
	{
		"an old journal wins", "fsm/rebuild.go",
		"f.Attempt > t.Attempt || about > t.Attempt ||", "f.Attempt > 9+t.Attempt || about > 9+t.Attempt ||",
		[]string{foundAgain, "NoAttemptRunsTwice"},
		false,
	},
	{
		"a start with a finished container is repeated", "fsm/rebuild.go",
		"t.plans(DoStart) && max(f.Attempt, f.Branch) >= t.Attempt &&",
		"t.plans(DoStop) && max(f.Attempt, f.Branch) >= t.Attempt &&",
		[]string{foundAgain, "NoAttemptRunsTwice"},
		false,
	},
	{
		"a partial rebuild counts as complete", "fsm/rebuild.go",
		"return w.Part < w.Of", "return w.Part > w.Of",
		[]string{foundAgain},
		false,
	},
	{
		"a rebuild does not record its size", "fsm/rebuild.go",
		"m.record(RebuildWritten{ID: b.ID, Part: b.Part, Of: b.Of})", "m.record(RebuildWritten{ID: b.ID})",
		[]string{foundAgain},
		false,
	},
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
		"a lease lasts longer than others wait", "bus/lease/lease.go",
		"t.until = max(t.until, sent+t.Period)", "t.until = max(t.until, sent+2*t.Period)",
		[]string{"NoEffectOutsideItsLease"},
		false,
	},
	{
		"a lease is taken early", "bus/lease/lease.go",
		"return now-t.seenAt >= t.Period", "return now-t.seenAt >= t.Period/2",
		[]string{"NoEffectOutsideItsLease"},
		false,
	},
	{
		"a renewal does not count for standbys", "bus/lease/lease.go",
		"if !t.seen || r != t.last {", "if !t.seen {",
		[]string{"NoEffectOutsideItsLease"},
		false,
	},
	{
		"the snapshot misses a field", "fsm/memory.go",
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
		"a takeover drops an effect", "fsm/memory.go",
		"	for _, t := range tasks {\n", "	for _, t := range tasks {\n		t.Outbox = " +
			"t.Outbox[:min(len(t.Outbox), 1)-min(len(t.Outbox), 1)*int(t.Seq%2)]\n",
		[]string{"OutboxSurvives", replaySame},
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
		"d.Until = m.now.Add(wait)",
		"drawn++\n		d.Until = m.now.Add(wait + drawn)",
		[]string{"DecisionsComeFromTheEvent"},
		false,
	},
	{
		"memory without a bound", "fsm/apply.go",
		"t.History = t.History[max(0, len(t.History)-maxHistory):]", "_ = maxHistory",
		[]string{"NothingUnbounded"},
		false,
	},
	{
		"an effect is emitted twice", "fsm/recorder.go",
		"	t.soft.inFlight = p.Effect.ID\n", "	if p.Tries == 0 {\n		t.soft.inFlight = p.Effect.ID\n	}\n",
		[]string{"EffectIDsAreForEver", effectAfterFact, endsSomewhere, "CommandsCountOnce"},
		false,
	},
	{
		"the cursor passes an undecided issue", "fsm/intake.go",
		"	if !m.readUndecided(b) && b.Cursor != m.Cursor(b.Repo) {",
		"	if _ = m.readUndecided(b); b.Cursor != m.Cursor(b.Repo) {",
		[]string{endsSomewhere},
		false,
	},
	{
		"half a claim is ignored", "fsm/intake.go",
		"case v.Key.valid() && v.Open && v.has(LabelClaimed):",
		"case v.Key.valid() && v.Open && v.has(LabelClaimed) && !v.has(LabelTask):",
		stuck,
		false,
	},
}
