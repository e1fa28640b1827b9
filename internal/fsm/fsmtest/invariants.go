package fsmtest

import (
	"time"

	"retake/internal/fsm"
)

// Invariant is something that holds in every world, and where it is looked at. Each check returns what is wrong, or
// nothing.
type Invariant struct {
	Name string
	Says string

	fact func(h *history, p *process, r fsm.Record, f fsm.Fact) string // of the journal, before the twin takes it
	step func(h *history, p *process, at time.Time, body fsm.EventBody, facts []fsm.Fact,
		effects []fsm.Effect) string
	handed  func(h *history, p *process, e fsm.Effect) string // an effect that was handed out
	carried func(h *history, p *process, e fsm.Effect) string // before it is carried out in the world
	ack     func(h *history, p *process, r *report) string
	boot    func(h *history, p *process) string // before a new director's first step
	full    func(h *history, p *process) string // now and then
	end     func(h *history, p *process) string // after the faults have stopped
}

// The names of those that are also checked outside of the table.
const (
	replaySame      = "ReplayReachesTheSameState"
	ackAfterFact    = "NoAckBeforeItsFact"
	effectAfterFact = "NoEffectBeforeItsFact"
	timerMeansWork  = "EveryTimerMeansWork"
	twoAttempts     = "NeverTwoAuthorisedAttempts"
	decisionsAlike  = "DecisionsComeFromTheEvent"
	endsSomewhere   = "EveryTaskEndsSomewhere"
)

// Invariants is the table.
var invariants = []Invariant{
	{
		Name: twoAttempts, Says: "the leader starts no container beside another attempt's of which anything could " +
			"still count: that is confirmed gone, or was fenced, shut out of the bus and with a checkout of its own; " +
			"and nobody welcomes a worker whose attempt is over",
		carried: runsAlone, handed: welcomesTheCurrent,
	},
	{
		Name: effectAfterFact, Says: "what the driver hands out was decided, in this order, and every record up to " +
			"its decision is in the journal; a durable effect is in the outbox there",
		handed: plannedInJournal,
	},
	{Name: "NoEffectOutsideItsLease", Says: "a director whose lease another one has taken carries out no effect, " +
		"however long it was suspended", carried: withinItsLease},
	{Name: "OneLeadersDecisions", Says: "after the first decision of a director in the journal there is none of " +
		"one before it", fact: decidesInTurn},
	{Name: ackAfterFact, Says: "an input is acknowledged after every record up to its decision is in the journal"},
	{
		Name: "OldAttemptsAreFenced", Says: "what a worker says whose attempt is over decides nothing about its task",
		step: fenced,
	},
	{Name: fencedCounts, Says: "an attempt is fenced when nobody could confirm its end for a minute after the time " +
		"that it had, and the journal says so; what its worker says after that decides nothing, and nothing of it is " +
		"handed in before another attempt has validated it", fact: fencedAtItsTime, step: countsNothing},
	{
		Name: pendingWaits, Says: "an attempt that waits for room misses no hello and has no watchdog; it is given up " +
			"when its time is over, five minutes at most for an image, and runs when the list or its worker says so",
		fact: waitsForRoom, step: runsWhenSeen,
	},
	{Name: clustersReason, Says: "an attempt that the cluster has ended, and of which nobody knows anything else, " +
		"fails for the cluster's reason", step: clusterSaysWhy},
	{Name: "NoReportLost", Says: "a report that was acknowledged was accepted, or its attempt is over, or has been " +
		"told too much", ack: reportKept},
	{Name: "NoReportDecidedTwice", Says: "no report is accepted twice, and an attempt has one verdict, and one more " +
		"for each time that its work is handed in again", fact: decidedOnce},
	{Name: "SuccessIsDelivered", Says: "an attempt whose success was accepted first is delivered, unless it " +
		"was withdrawn", fact: successDelivered},
	{
		Name: "NothingFinishedIsThrownAway", Says: "an attempt whose worker's own final report was found before its " +
			"container was removed, in the stream or in the spool, is judged by a report and not by its silence",
		step: judgedByItsReport,
	},
	{
		Name: "NothingShownOfTheClosed", Says: "a delivery that found the issue closed releases it, and asks nobody",
		step: closedIsReleased,
	},
	{Name: "BudgetsNeverExceeded", Says: "dispatches between two answers of a human stay within director.max_retries " +
		"and the policy's rows, and each of them is charged, a wait, or an incident's; an attempt that goes over its " +
		"task's paid calls or cost is stopped; when these or the iterations are used up no further one begins until " +
		"a human or the operator resets them", fact: withinBudget, step: affords},
	{Name: "SlotsNeverExceeded", Says: "no more tasks hold a slot than there are workers", fact: slotsHeld},
	{Name: decidesNothing, Says: "a configuration that is read again is in the journal before anything that is " +
		"decided by it, and stops, begins and charges nothing by itself; an attempt that has begun keeps the " +
		"watchdog of its plan", step: readingDecidesNothing, fact: planKept},
	{
		Name: "DependenciesComeFirst", Says: "no task begins while an issue that it waits for has not been closed",
		fact: dependenciesFirst,
	},
	{Name: "CapsAreKept", Says: "no more tasks with a capped label take a slot than its cap says", fact: capsKept},
	{Name: "TheLongestWaiterGoesFirst", Says: "of one repository's queue the task begins that waits for longest, a " +
		"priority counted as hours of waiting", fact: longestWaiter},
	{
		Name: "NothingBegunOnAFullDisk", Says: "while the director's machine is closed for new work no task takes a slot",
		fact: hostOpen,
	},
	{
		Name: "NoGitHubCallInCooldown", Says: "no effect that uses GitHub is decided while GitHub is closed",
		step: githubOpen,
	},
	{
		Name: "OneTaskClosesLittle", Says: "what the workers of one task say of limits closes a resource for others no " +
			"longer than max_wait_seconds, in sum over a day; beyond that it is closed until the earlier deadline that " +
			"two tasks have said within twice that time, since it was lifted last", fact: oneTaskClosesLittle,
		step: wordsAreWords,
	},
	{Name: "LiftedIsOpen", Says: "a resource that an operator lifts is open, and the tasks that waited for " +
		"it may go on", step: liftedIsOpen},
	{Name: "OneOpenEscalationPerBlock", Says: "a blocked task has asked once, and nobody else asks", fact: asksOnce},
	{Name: "NextAttemptOnlyAfterConfirmedStop", Says: "an attempt begins after the stop of the last one was " +
		"confirmed, or that one was fenced, and is numbered next", fact: beginsAfterStop},
	{
		Name: "OnlyTheTable", Says: "every move is a row of the table of transitions, from where the task was",
		fact: inTheTable,
	},
	{
		Name: "EffectIDsAreForEver", Says: "no effect is planned twice, nor two under way for one task", fact: plannedOnce,
		handed: oneUnderWay,
	},
	{
		Name: "DeadlinesAreTheAttemptsOwn", Says: "watchdog, missing hello and silence are decided after this attempt's " +
			"own deadline, and not within the grace after a start or a suspension", fact: deadlinePassed,
		step: silenceForgiven,
	},
	{
		Name: "SilenceIsSeenInTime", Says: "a running worker of which nothing has come for its time is suspected in the " +
			"first step after that: what it has shown of life counts from when it came, not from when it was handed over",
		step: silenceSeen,
	},
	{Name: "StaleOnlyWhenItCouldHaveGoneOn", Says: "a claim goes stale only after a time without any cooldown in " +
		"which its next attempt was due", fact: staleFairly},
	{Name: "KillNeedsTwoWitnesses", Says: "a worker is killed for silence only after the runtime was heard since it " +
		"was suspected", step: twoWitnesses},
	{
		Name: "GraceIsForThoseWhoListen", Says: "a worker that is silent, never began or has ended, and one that a " +
			"report of the director's own ends, is stopped at once; any other has its time to end by itself",
		step: graceOfStop,
	},
	{
		Name: "UsageSurvivesCrashes", Says: "a paid call that was heard of is in the journal before anything else is " +
			"decided, only rises there, is found by the next director, and is counted before the attempt is judged",
		fact: usageKept, step: usageDurable, boot: usageRestored,
	},
	{Name: "NothingIntoAnOutage", Says: "nothing that an incident concerns is dispatched while its breaker is open, " +
		"and one task while it is half open", fact: canaryStays, step: nothingIntoOutage},
	{Name: "CanariesTakeTurns", Says: "who failed last in an incident is its canary only if nobody else waits " +
		"who could be", step: canariesTakeTurns},
	{Name: "IncidentsKeepToTheirRepository", Says: "what no open incident concerns takes a free slot: that of one " +
		"repository is no other's", step: othersGoOn},
	{Name: "IncidentsAreOfWhatFailed", Says: "an incident's failures, and the limits that close a model, are of what " +
		"the failing part used: the director's effect, or the agent whose stage it was; a command's own connections " +
		"are nobody else's", fact: ofWhatFailed},
	{Name: "OutagesAreWaitedFor", Says: "an attempt that waits for git or for GitHub's API has failed only when " +
		"these were away for ten minutes", fact: outageWaited},
	{Name: "GitHubClosesItself", Says: "a resource of GitHub is closed until the deadline that the gate reports, or " +
		"that an effect was refused with, or by a verdict; failures of effects close none", step: closedByGitHub},
	{Name: "HealedMeansHealed", Says: "a healed incident opens again only when three tasks have failed since; a " +
		"checkout that was made ends the wait for git", fact: threeToOpen, step: fetchHeals},
	{Name: "LostWorkIsDoneAgain", Says: "a delivery that finds the work lost is a failed attempt that the policy " +
		"judges, and no delivery that is given up", fact: lostWork},
	{Name: "DeterministicIsOnlyTold", Says: "a failure that the same work repeats keeps nothing back, has no canary, " +
		"and nobody waits for its end", fact: onlyTold},
	{Name: "OnlyAHumanUnblocks", Says: "a blocked task goes on only by an answer of a human, or because its " +
		"incident is over", step: humanUnblocks},
	{
		Name: "CommandsCountOnce", Says: "a command is carried out or refused once for each comment and edit, and for " +
			"each request of the operator however often it is repeated, none is lost that was given since the director " +
			"listens, and the answer to it says what was decided and is given before the cursor passes it",
		fact: commandOnce, handed: answeredAsDecided, end: everyoneHeard,
	},
	{Name: "ReviewsCountOnce", Says: "each commit's failing checks, each commit's conflict and each review begin at " +
		"most one attempt, and what leads to one is noted with it", fact: reviewedOnce, step: notedBefore},
	{Name: "MergedIsTheEnd", Says: "a pull request that is seen merged or closed ends its claim, unless an attempt " +
		"or a delivery is under way; then it does after that", step: endsWithPull},
	{Name: "OneReminder", Says: "a question is raised once more when its time has come, not again, and not when " +
		"it is answered", fact: remindedOnce},
	{
		Name: "SnoozedSleeps", Says: "a snoozed task begins nothing before its time, unless a person says so",
		fact: putOff, step: wokenByPeople,
	},
	{Name: "WorkGoesOntoWork", Says: "whoever hands in or shows more of a claim's work is told the branch and the " +
		"pull request of what was shown before", fact: ontoTheLast},
	{Name: "NothingUnvalidated", Says: "after a delivery that had to merge the base branch first another attempt " +
		"validates it before anything is delivered", fact: validatedFirst},
	{Name: cleanlyValidated, Says: "where a clean container validates, nothing is handed in but by an attempt " +
		"without an agent that has reported success, and only what that attempt was given; which attempt leaves its " +
		"validation to another is decided, told and remembered when it begins; each such attempt follows a success " +
		"of an agent's, or is charged or a wait by a verdict", fact: validatedCleanly, carried: handsInTheValidated},
	{Name: "DeliveriesEnd", Says: "a delivery that goes on failing is given up after its time, waits for a stated " +
		"reset not counted", fact: failsForGood},
	{Name: "OneRefusalEndsNothing", Says: "a push that seems to be refused is given up when it has been for two " +
		"minutes, three times and more, and nothing else was said", fact: refusedForLong},
	{Name: "HandedInAgain", Says: "work that only could not be handed in is handed in before another attempt begins, " +
		"when a person says to go on and nothing else", fact: handedInAgain},
	{Name: "OutboxSurvives", Says: "what a new director finds pending is what the journal has planned and " +
		"not seen done", boot: outboxIsTheJournals},
	{
		Name: replaySame, Says: "snapshot and facts give the live hard state, by hash", boot: replayedAtCrash,
		full: replayed,
	},
	{Name: decisionsAlike, Says: "the same machine decides the same about the same event", step: decidesAlike},
	{
		Name: "NothingUnbounded", Says: "every queue, list and text of the machine has a bound by the number of its tasks",
		full: bounded,
	},
	{Name: timerMeansWork, Says: "after the deadline was offered it is another one, and none is left when " +
		"nothing waits", end: noTimerLeft},
	{Name: endsSomewhere, Says: "once faults stop every task comes to Running, InReview with an open pull request, " +
		"Done, Blocked or Released, and what is eligible is taken", end: atRest},
	{Name: "NoLabelLeftBehind", Says: "at rest every issue's labels say what its task's state does", end: labelsAgree},
	{Name: "DriverTakesEvents", Says: "the driver takes every event"},
}

// fullEvery is how many steps lie between two full checks.
const fullEvery = 1000

// everyOne stands for all invariants.
const everyOne = "*"

// rules are the rows that have each kind of check, so that nothing is asked in vain.
type rules struct{ fact, step, handed, carried, ack, boot, full, end []*Invariant }

func newRules(without string) *rules {
	r := &rules{}
	for i := range invariants {
		row := &invariants[i]
		if row.Name == without || without == everyOne {
			continue
		}
		for _, kind := range []struct {
			has bool
			to  *[]*Invariant
		}{
			{row.fact != nil, &r.fact},
			{row.step != nil, &r.step},
			{row.handed != nil, &r.handed},
			{row.carried != nil, &r.carried},
			{row.ack != nil, &r.ack},
			{row.boot != nil, &r.boot},
			{row.full != nil, &r.full},
			{row.end != nil, &r.end},
		} {
			if kind.has {
				*kind.to = append(*kind.to, row)
			}
		}
	}
	return r
}
