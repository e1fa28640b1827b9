package fsmtest

import (
	"retake/internal/fsm"
)

// Invariant is a property that holds in every world. Each check returns an error text, or "".
type Invariant struct {
	Name string
	Says string

	fact    factCheck                                         // for each journaled fact, before the model applies it
	step    stepCheck                                         // after each step
	handed  func(h *history, p *process, e fsm.Effect) string // for each effect that the driver hands out
	carried func(h *history, p *process, e fsm.Effect) string // for each effect, before the world carries it out
	ack     func(h *history, r *report) string
	boot    func(h *history, p *process) string // before a new director's first step
	full    func(h *history, p *process) string // occasionally
	end     func(h *history, p *process) string // after the faults have stopped

	live bool // checks progress, not only safety
}

// Names of invariants that code outside the table also checks.
const (
	replaySame       = "ReplayReachesTheSameState"
	ackAfterFact     = "NoAckBeforeItsFact"
	effectAfterFact  = "NoEffectBeforeItsFact"
	timerMeansWork   = "EveryTimerMeansWork"
	twoAttempts      = "NeverTwoAuthorisedAttempts"
	decisionsAlike   = "DecisionsComeFromTheEvent"
	endsSomewhere    = "EveryTaskEndsSomewhere"
	labelLeft        = "NoLabelLeftBehind"
	workHandedIn     = "FinishedWorkIsHandedIn"
	reposTakeTurns   = "EveryRepositoryHasItsTurn"
	fencedCounts     = "NothingOfTheFencedCounts"
	pendingWaits     = "PendingIsWaiting"
	clustersReason   = "TheClusterSaysWhy"
	decidesNothing   = "ReadingDecidesNothing"
	cleanlyValidated = "ValidatedCleanly"
	contractsHold    = "MendedContractsHoldNothing"
)

var invariants = []Invariant{
	{
		Name: twoAttempts,
		Says: "the leader starts a container only if every earlier attempt is confirmed gone, or is fenced and has a " +
			"separate checkout; the director never welcomes a worker from a finished attempt",
		carried: runsAlone, handed: welcomesTheCurrent,
	},
	{Name: effectAfterFact, Says: "the driver hands out only decided effects, in order, once every record up to the " +
		"decision is in the journal", handed: plannedInJournal},
	{Name: "NoEffectOutsideItsLease", Says: "after another director has taken its lease, a director does not carry " +
		"out effects, even if it was suspended for a long time", carried: withinItsLease},
	{Name: "OneLeadersDecisions", Says: "a director's first decision in the journal follows all decisions of earlier " +
		"directors", fact: decidesInTurn},
	{Name: ackAfterFact, Says: "the driver acknowledges an input once every record up to its decision is in the " +
		"journal"},
	{
		Name: "OldAttemptsAreFenced", Says: "a message from a finished attempt does not change its task",
		step: fenced,
	},
	{
		Name: fencedCounts, Says: "a fact fences an attempt no earlier than a minute after it should have ended; its " +
			"later messages have no effect, and its work is validated before delivery",
		fact: several(onClaim(fencedInTime), onClaim(fencedStaysBack)), step: countsNothing,
	},
	{
		Name: pendingWaits, Says: "an attempt that waits for capacity has no watchdog or hello deadline; the " +
			"director gives up on it after its timeout, or after five minutes without an image, and counts it as " +
			"running once the list or its worker shows that it is running",
		fact: several(onClaim(waitsInTime), onClaim(waitingIsNoSilence), onClaim(helloInTime)),
		step: after(runsWhenSeen),
	},
	{Name: clustersReason, Says: "if the cluster ended an attempt and there is no other evidence, the attempt fails " +
		"with the cluster's reason", step: after(clusterSaysWhy)},
	{Name: "NoReportLost", Says: "an acknowledged report was accepted, unless its attempt had ended or sent too many " +
		"reports", ack: reportKept},
	{Name: "NoReportDecidedTwice", Says: "a report is accepted once, and an attempt gets one verdict each time its " +
		"work is handed in", fact: several(onClaim(acceptedOnce), onClaim(judgedOnce))},
	{Name: "SuccessIsDelivered", Says: "an attempt is delivered if its first accepted final report is a success, " +
		"unless the task was withdrawn", fact: onClaim(successDelivered)},
	{
		Name: "NothingFinishedIsThrownAway", Says: "if the stream or the spool has a final report before the " +
			"container is removed, the verdict is based on that report, not on the worker's silence",
		step: after(judgedByItsReport),
	},
	{
		Name: "NothingShownOfTheClosed", Says: "a delivery that finds the issue closed releases its claim without a " +
			"question",
		step: after(closedIsReleased),
	},
	{
		Name: "BudgetsNeverExceeded", Says: "between two answers, dispatches stay within director.max_retries and " +
			"the policy's rows; each is charged, or caused by a wait or an incident. An attempt that exceeds its " +
			"budget for paid calls or cost is stopped, and a used-up budget prevents further attempts until a person " +
			"or the operator resets it",
		fact: onClaim(withinBudget), step: affords,
	},
	{Name: "SlotsNeverExceeded", Says: "tasks never hold more slots than director.max_workers", fact: several(
		on(slotsLowered[fsm.SettingsChanged]), on(slotsLowered[fsm.RunBegan]), onClaim(slotForRereading),
		on(slotsHeld))},
	{
		Name: decidesNothing, Says: "a reloaded configuration is in the journal before any decision that uses it. " +
			"Reloading does not start, stop or charge attempts, and a running attempt keeps its watchdog",
		step: after(readingDecidesNothing), fact: onClaim(planKept),
	},
	{
		Name: "DependenciesComeFirst", Says: "a task begins only after the issues that it waits for are closed",
		fact: dequeued(dependenciesFirst),
	},
	{
		Name: "CapsAreKept", Says: "the tasks with a capped label never hold more slots than the cap allows",
		fact: onClaim(capsKept),
	},
	{
		Name: "FinishedWorkGoesFirst", Says: "the director does not claim issues while the number of finished tasks " +
			"waiting for their first delivery is at least the number of workers, or while claimed issues need all " +
			"comments that GitHub still allows this hour",
		fact: dequeued(finishedFirst),
	},
	{Name: "TheLongestWaiterGoesFirst", Says: "within a repository, the task that has waited longest begins first. A " +
		"point of priority counts as an hour of waiting", fact: dequeued(longestWaiter)},
	{
		Name: "NothingBegunOnAFullDisk", Says: "while the director's disk is full, tasks are not given slots",
		fact: several(on(hostOpen), on(hostOpenForNext)),
	},
	{
		Name: "ProgramsComeFirst", Says: "an attempt begins only after a search has found all programs in the " +
			"configuration",
		step: programsFirst,
	},
	{
		Name: "ContractsComeFirst", Says: "while a repository's contract has known problems, the director claims no " +
			"issue there and prepares no attempt. The incident names the last known problems",
		fact: onClaim(contractFirst), step: contractNoted,
	},
	{
		Name: "ContractsAreKept", Says: "an attempt gets one contract, which its effects carry until the next " +
			"attempt has started, even after a takeover",
		fact: several(onClaim(contractOnce), onClaim(contractCarried)), step: after(contractTaken),
		boot: contractRestored,
	},
	{
		Name: "BrokenContractsAreFree", Says: "an attempt that could not begin because of its repository's contract " +
			"is free. Its task waits for a valid contract, and then repeats the attempt",
		fact: onClaim(contractAsksNobody), step: after(contractIsFree),
	},
	{
		Name: "NoGitHubCallInCooldown", Says: "while GitHub is closed, the director does not decide on effects that " +
			"use it",
		step: githubOpen,
	},
	{
		Name: "OneTaskClosesLittle", Says: "one task's workers can close a resource for others for at most " +
			"max_wait_seconds a day; two tasks that report deadlines within twice that time can close it for longer, " +
			"until the earlier deadline", fact: on(oneTaskClosesLittle),
		step: wordsAreWords,
	},
	{
		Name: "LiftedIsOpen", Says: "a resource is open after an operator lifts its cooldown, and the tasks that " +
			"waited for it may continue",
		step: after(liftedIsOpen),
	},
	{
		Name: "OneOpenEscalationPerBlock", Says: "a blocked task has exactly one open question",
		fact: several(onClaim(asksOnce), onClaim(asksBeforeBlocking)),
	},
	{Name: "NextAttemptOnlyAfterConfirmedStop", Says: "an attempt has the next number, and begins only after the " +
		"previous attempt has been confirmed stopped or fenced", fact: on(beginsAfterStop)},
	{
		Name: "OnlyTheTable", Says: "every change of a task's state matches a row of the transition table",
		fact: on(inTheTable),
	},
	{
		Name: "EffectIDsAreForEver", Says: "an effect is planned once, and a task has at most one under way",
		fact: onClaim(plannedOnce), handed: oneUnderWay,
	},
	{
		Name: "DeadlinesAreTheAttemptsOwn", Says: "the watchdog, hello and silence checks use the current attempt's " +
			"deadlines, which are extended when the director starts or has been suspended",
		fact: onClaim(deadlinePassed),
		step: silenceForgiven,
	},
	{Name: "SilenceIsSeenInTime", Says: "a silent worker is suspected in the first step after its deadline; a sign " +
		"of life counts from its arrival", step: silenceSeen},
	{Name: "StaleOnlyWhenItCouldHaveGoneOn", Says: "a claim becomes stale only if its next attempt was due and could " +
		"have begun", fact: onClaim(staleFairly)},
	{Name: "KillNeedsTwoWitnesses", Says: "a worker is killed for silence only if the runtime has answered since the " +
		"worker became suspect, and the worker has not answered a later probe", step: twoWitnesses},
	{Name: "UnknownWorkersAreLeftAlone", Says: "within a minute, the director answers at most one sign of life from " +
		"an unknown worker, and removes its listed container at most once", step: answersSeldom},
	{Name: "GraceIsForThoseWhoListen", Says: "a worker that is silent, never began, has ended, or is ended by a " +
		"director's report is stopped at once; any other worker gets its grace period", step: graceOfStop},
	{
		Name: "UsageSurvivesCrashes", Says: "the count of paid calls is journaled before other decisions, never " +
			"decreases, survives a takeover, and is complete before the attempt is judged",
		fact: several(onClaim(usageRises), onClaim(usageCounted)), step: usageDurable, boot: usageRestored,
	},
	{
		Name: "NothingIntoAnOutage", Says: "while an incident's breaker is open, affected tasks are not dispatched; " +
			"while the breaker is half open, they are dispatched one at a time", fact: on(canaryStays),
		step: nothingIntoOutage,
	},
	{
		Name: "CanariesTakeTurns", Says: "the task that failed last is the next canary only if it is the only " +
			"candidate",
		step: canariesTakeTurns,
	},
	{Name: "IncidentsKeepToTheirRepository", Says: "an incident in one repository does not keep unaffected tasks " +
		"from a free slot", step: othersGoOn},
	{
		Name: "IncidentsAreOfWhatFailed", Says: "an incident or a closed model concerns only the resource that " +
			"failed, which the director's effect or the stage's agent was using. A command's failed connection " +
			"concerns only its task",
		fact: several(on(countsWhatFailed), on(closesWhatFailed)),
	},
	{Name: "OutagesAreWaitedFor", Says: "an attempt that waits for git or GitHub's API fails only after ten minutes " +
		"of outage", fact: onClaim(outageWaited)},
	{Name: "GitHubClosesItself", Says: "a GitHub resource closes because of the gate's deadline, a deadline reported " +
		"by a failed effect, or a verdict, never merely because effects failed", step: closedByGitHub},
	{Name: "HealedMeansHealed", Says: "an incident that is over reopens only after three more failures; a successful " +
		"checkout ends a git incident", fact: on(threeToOpen), step: fetchHeals},
	{Name: "LostWorkIsDoneAgain", Says: "a delivery that finds the work lost counts as a failed attempt, judged by " +
		"the policy", fact: on(lostWork)},
	{
		Name: "DeterministicIsOnlyTold", Says: "a deterministic failure does not hold up tasks or need a canary",
		fact: several(on(keepsNothingBack), on(waitsForNothing)),
	},
	{
		Name: "NeverMeansNever", Says: "after a failure that the policy never retries, an incident makes the task " +
			"wait only if the policy sets incidents_outrank_never",
		fact: on(neverStays),
	},
	{
		Name: "StatedCallersDecide", Says: "the policy rows for a stage's configured caller decide its failures, and " +
			"the verdict records that caller",
		fact: on(decidesForCaller),
	},
	{
		Name: "ReportersWordCounts", Says: "the policy grants no attempt after an explicit escalate_to_human = true, " +
			"and at most one after should_retry = false, until a person answers",
		fact: onClaim(wordCounts),
	},
	{
		Name: "OnlyAHumanUnblocks", Says: "a blocked task continues only after a person's answer, or when its " +
			"incident is over",
		step: humanUnblocks,
	},
	{
		Name: "CommandsCountOnce", Says: "the director decides on each version of a command and each operator's " +
			"request exactly once, and answers with the decision before the cursor passes the comment",
		fact:   several(on(answersBeforeCursor), on(takenOnce)),
		handed: answeredAsDecided, end: everyoneHeard,
	},
	{
		Name: "PlainCommentsCountOnce", Says: "each comment without a command on a blocked task is acknowledged at " +
			"most once, and answers the question if and only if the agent asked it, the comment is newer, and the " +
			"configuration allows it",
		fact: onClaim(heardOnce), handed: acknowledgedAsDecided, step: plainAnswerUnblocks,
	},
	{Name: "ReviewsCountOnce", Says: "each commit's failing checks, each commit's conflict and each review begin at " +
		"most one attempt, and are journaled with it", fact: on(reviewedOnce), step: after(notedBefore)},
	{Name: "MergedIsTheEnd", Says: "a merged or closed pull request ends its claim, once any running attempt or " +
		"delivery has ended", step: after(endsWithPull)},
	{
		Name: "OneReminder", Says: "the director repeats an unanswered question once, at the configured time",
		fact: several(on(remindedOnce), on(remindedInTime)),
	},
	{
		Name: "SnoozedSleeps", Says: "a snoozed task begins an attempt only after its snooze is over, or at a " +
			"person's request",
		fact: onClaim(putOff), step: wokenByPeople,
	},
	{Name: "WorkGoesOntoWork", Says: "a delivery or push continues the branch and pull request of the claim's " +
		"earlier work", fact: onClaim(ontoTheLast)},
	{
		Name: "NothingUnvalidated", Says: "if a delivery has to merge the base branch, another attempt validates the " +
			"result before it is delivered",
		fact: several(onClaim(deliversNoMerge), onClaim(showsNoMerge), onClaim(validatesMerge)),
	},
	{
		Name: cleanlyValidated, Says: "with clean validation, only the success of an attempt without an agent leads " +
			"to a delivery, and exactly the validated work is delivered. Each attempt declares at its start whether " +
			"another one will validate it, and each validation follows an agent's success, a charge or a wait",
		fact:    several(on(leavesValidation), on(handsInValidated), onClaim(deliversValidated)),
		carried: handsInTheValidated,
	},
	{
		Name: "DeliveriesEnd", Says: "after the configured time, the director gives up on a delivery that keeps " +
			"failing; waits for an announced reset do not count",
		fact: onClaim(failsForGood),
	},
	{
		Name: "KeptWorkIsMentioned", Says: "once a delivery has failed three times, each failure plans a comment " +
			"edit that mentions the kept work, until the edit succeeds; a process makes it once for each delivery",
		step: after(keptIsSaid),
	},
	{Name: "OneRefusalEndsNothing", Says: "a push counts as refused after two minutes and three tries with the same " +
		"response", fact: onClaim(refusedForLong)},
	{Name: "HandedInAgain", Says: "if a person only asks to continue, work that could not be delivered is delivered " +
		"before another attempt begins", fact: onClaim(handedInAgain)},
	{Name: "OutboxSurvives", Says: "a new director finds exactly the effects that the journal shows as planned but " +
		"not done", boot: outboxIsTheJournals},
	{
		Name: replaySame, Says: "replaying the snapshot and the facts gives the same hard state as the running " +
			"machine",
		boot: replayedAtCrash,
		full: replayed,
	},
	{Name: decisionsAlike, Says: "two equal machines make the same decision about an event", step: decidesAlike},
	{
		Name: "NothingUnbounded", Says: "for a given number of tasks, the machine's queues, lists and texts have a " +
			"maximum size",
		full: bounded,
	},
	{
		Name: timerMeansWork, Says: "once the machine's deadline has been handled, the machine has a different " +
			"deadline, or none if no task waits",
		end: noTimerLeft, live: true,
	},
	{
		Name: contractsHold, Says: "once people have mended a contract, it no longer holds up its repository",
		end: contractsMended, live: true,
	},
	{Name: endsSomewhere, Says: "once faults stop, every task reaches Running, InReview with an open pull request, " +
		"Done, Blocked or Released, and eligible issues are taken", end: atRest, live: true},
	{
		Name: workHandedIn, Says: "once faults stop, finished work is delivered within twenty minutes, even if " +
			"further issues are claimed, unless GitHub is unavailable",
		fact: onClaim(handedInTime), end: handedInAtRest, live: true,
	},
	{Name: reposTakeTurns, Says: "the director does not claim an issue in one repository while another repository " +
		"without a worker has waited longer for its turn", fact: dequeued(takesTurns), live: true},
	{Name: labelLeft, Says: "at rest, every issue's labels match its task's state", end: labelsAgree, live: true},
	{Name: "DriverTakesEvents", Says: "the driver accepts every event"},
}

// fullEvery is the number of steps between runs of the checks in Invariant.full.
const fullEvery = 1000

// Values of Options.Without that disable all invariants, and all except those about progress.
const (
	everyOne  = "*"
	allSafety = "safety"
)

// enabled returns the enabled rows.
func enabled(without string) (rows []*Invariant) {
	for i := range invariants {
		if without != everyOne && invariants[i].Name != without && (without != allSafety || invariants[i].live) {
			rows = append(rows, &invariants[i])
		}
	}
	return rows
}

// lossInvariants lists additional invariants for worlds that lose their journal. The rows above that do not use the
// journal model apply there as well.
var lossInvariants = []Invariant{
	{Name: "NoAttemptRunsTwice", Says: "an attempt is not started after its container has been confirmed gone, or " +
		"while another attempt of the task is running", carried: runsOnce},
	{
		Name: "NoQuestionTwice", Says: "while a question is open and unanswered, no other question is asked",
		carried: questionOnce,
	},
}

// foundAgain is the name of the invariant checked after each loss.
const foundAgain = "WhatIsShownIsFoundAgain"

// lossRules returns lossInvariants and the rows above that do not use the journal model.
func lossRules() (rows []*Invariant) {
	for i := range lossInvariants {
		rows = append(rows, &lossInvariants[i])
	}
	for i := range invariants {
		if name := invariants[i].Name; name == endsSomewhere || name == labelLeft {
			rows = append(rows, &invariants[i])
		}
	}
	return rows
}

func runsOnce(h *history, p *process, e fsm.Effect) string {
	if e.Kind == fsm.DoStart && p == h.w.directors.lead && h.w.hub.losses.over[e.Worker] {
		return e.Worker + " is started again"
	}
	return runsAlone(h, p, e)
}
