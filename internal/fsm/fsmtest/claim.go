package fsmtest

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

// claim is the model's view of one claim of an issue, reconstructed from the journal.
type claim struct {
	key     fsm.IssueKey
	nonce   string
	state   fsm.State
	since   time.Time
	until   time.Time // deadline of the state
	attempt int

	confirmed bool      // the stop of the current attempt is confirmed, so it has no container
	startedAt time.Time // when the current attempt's container was confirmed to be running
	helloBy   time.Time
	watchdog  time.Time
	life      time.Duration // time limit of the current attempt
	verdict   int           // the last attempt with a verdict
	outcome   fsm.Outcome
	validates bool // the current attempt only validates the work
	end       ending
	asked     string // id of the planned or completed escalation
	outbox    []string
	planned   []string // all effect ids of this claim
	accepted  []string
	mine      int // number of accepted reports of the current attempt

	used       recovery.Usage // usage of the current attempt, according to the journal
	calls      int64          // paid calls of earlier attempts since a human last answered
	cost       float64
	iterations int // number of verdicts that granted another attempt since a human last answered

	redispatches  int
	byReason      map[string]int    // number of attempts that verdicts granted, by reason and caller
	counts        string            // the preset that byReason belongs to
	last          *recovery.Verdict // the last verdict since a human last answered
	reason        recovery.Reason   // reason of that verdict
	caller        string            // caller of the failed stage in that verdict
	by            settings          // settings under which the next attempt was granted
	ordered       settings          // settings under which the last delivery was planned
	remindAfter   time.Duration     // time until the reminder about the question
	incidentWaits int               // failures in an incident, and retries after one, since a human last answered
	fixRounds     int               // failed validations in clean containers that an agent had to fix
	fixMost       int               // limit on fixRounds when the last round was granted
	healed        bool              // the incident that blocked the task has ended

	away     time.Time // when the current start began to wait for a server
	standing fsm.Standing

	work        fsm.DeliverResult // the last published work
	unvalidated int               // the last attempt whose merge another attempt must validate
	noted       fsm.Reviewed      // state of the review that the director has handled
	heads       []string          // commits whose checks or conflict led to an attempt
	question    fsm.Asked         // open question on the issue
	reminded    string            // question that already has a reminder
	granted     bool              // the pending attempt was granted before a person reset the meters

	contract *fsm.Contract // contract of the current attempt, or of an earlier one until its start has ended
	agreed   bool          // the current attempt's contract has been recorded

	delivering
	placed
}

// ending describes the failure of the current attempt, according to the facts.
type ending struct {
	reported        bool
	stage, provider string          // according to the first final report of a failure
	known           recovery.Reason // failure that the director observed
	uses            string          // resource that the director used
	// word is the explicit assertion in the first final report of a failure.
	word *recovery.Assertion
}

// delivering describes a claim's finished work before its delivery.
type delivering struct {
	failing time.Time // when the current delivery first failed; zero while it waits for a stated reset
	failed  int       // consecutive failures
	tries   int       // number of tries, according to the last fact
	doubted time.Time // when the push was first refused; zero after a wait for a stated reset
	doubts  int       // consecutive doubtful refusals
	kept    bool      // the last question was about the delivery, because the work is finished
	resumed bool      // the person wants a delivery, and left no hint for the agent
	told    bool      // people have left hints for the agent since their last command
}

// placed describes an attempt's wait for capacity, its stop and its fencing, according to the journal.
type placed struct {
	waits, lacked bool // waits for capacity or an image; lacks an image
	waitsSince    time.Time
	waitsUntil    time.Time
	stopPlanned   time.Time // when the stop of the current attempt was planned
	stopGrace     time.Duration
	fenced        map[int]bool // attempts
}

// take applies a fact about the claim. set holds the settings under which it was decided.
func (c *claim) take(at time.Time, f fsm.Fact, set settings) {
	switch f := f.(type) {
	case fsm.StandingChanged:
		c.standing = f.Standing
	case fsm.Moved:
		c.moved(at, f, set)
	case fsm.AttemptBegan:
		c.begins(at, f)
	case fsm.AttemptContract:
		c.agreed, c.contract = true, &f.Contract
		if f.Contract.Path == "" {
			c.contract = nil
		}
	case fsm.ContainerWaits:
		if !c.waits {
			c.waitsSince = at
		}
		c.waits, c.waitsUntil, c.lacked = true, f.Until, f.Lacks == recovery.ImagePullFailed
	case fsm.ContainerStarted:
		c.startedAt, c.helloBy, c.watchdog, c.waits = at, f.HelloBy, f.WatchdogAt, false
	case fsm.WatchdogMoved:
		c.watchdog = f.At
	case fsm.ReportAccepted:
		c.accepts(f)
	case fsm.EndingSet:
		if f.Outcome == fsm.OutcomeWithdrawn {
			c.outcome = f.Outcome
		}
		if c.end.known == "" {
			c.end.known, c.end.uses = f.Known, f.Resource
		}
	case fsm.AttemptFenced:
		if c.fenced == nil {
			c.fenced = map[int]bool{}
		}
		c.fenced[f.Attempt] = true
	case fsm.VerdictMade:
		c.judge(f, set)
	case fsm.UsageCounted:
		switch {
		case f.PaidCalls != nil:
			c.calls = *f.PaidCalls
		case f.Ended:
			c.calls, c.cost, c.used = c.calls+f.Usage.PaidCalls, c.cost+f.Usage.CostUSD, recovery.Usage{}
		default:
			c.used = f.Usage
		}
	default:
		c.takePeople(f)
		c.takeEffect(at, f, set)
	}
}

// takePeople applies facts about people's comments, and about work that people can see.
func (c *claim) takePeople(f fsm.Fact) {
	switch f := f.(type) {
	case fsm.ReviewNoted:
		c.heads = append(c.heads, headsOf(c.noted, f.Reviewed)...)
		c.noted = f.Reviewed
	case fsm.WorkPushed:
		pull := c.work.PullRequest
		c.work = f.Work
		c.work.PullRequest = max(pull, f.Work.PullRequest)
	case fsm.WorkDelivered:
		if c.work = f.Delivery; f.Delivery.PullRequest > 0 {
			c.byReason, c.fixRounds = map[string]int{}, 0
		}
	case fsm.CommandTaken:
		c.told = false
		switch {
		case f.Refused != "":
		case f.Command == fsm.CommandResume, f.Command == fsm.CommandRetry:
			c.resumed = c.kept
		case f.Command != fsm.CommandWhy && f.Command != fsm.CommandHelp && f.Command != fsm.CommandSnooze:
			c.kept, c.resumed = false, false
		}
	case fsm.CommentHeard:
		if f.Answers { // the answer is a hint, even if HintsGiven follows later
			c.told, c.resumed = true, false
		}
	case fsm.HintsGiven: // the preceding command left a hint for the agent
		if c.resumed {
			c.kept, c.resumed = false, false
		} else {
			c.told = true
		}
	case fsm.TallyReset: // this answers the question
		if c.told {
			c.kept, c.resumed, c.told = false, false, false
		}
		c.redispatches, c.byReason, c.incidentWaits, c.fixRounds = f.Redispatches, map[string]int{}, 0, 0
		if c.granted = f.Next.Reason != ""; !c.granted {
			c.last, c.healed = nil, false
		}
		c.calls, c.cost, c.iterations = 0, 0, 0
	}
}

// takeEffect applies a fact about an effect that is planned, deferred or done.
func (c *claim) takeEffect(at time.Time, f fsm.Fact, set settings) {
	switch f := f.(type) {
	case fsm.EffectPlanned:
		e := f.Effect
		c.outbox, c.planned = append(c.outbox, e.ID), append(c.planned, e.ID)
		switch e.Kind {
		case fsm.DoDeliver:
			c.ordered, c.delivering = set, delivering{}
		case fsm.DoEscalate:
			c.asked = e.ID
		case fsm.DoRemind:
			c.reminded = c.asked
		case fsm.DoStop:
			c.stopPlanned, c.stopGrace = at, e.Stop.Grace
		}
	case fsm.EffectDeferred:
		switch {
		case delivers(f.Effect):
			c.deliveryDeferred(at, f)
		case !strings.Contains(f.Effect, "/"+string(fsm.DoStart)):
		case f.Since.IsZero(): // it waits for a stated reset
			c.away = time.Time{}
		case c.away.IsZero():
			c.away = at
		}
	case fsm.EffectDone:
		if i := slices.Index(c.outbox, f.Effect); i >= 0 {
			c.outbox = slices.Delete(slices.Clone(c.outbox), i, i+1)
		}
		if f.Asked != nil && f.Effect == c.asked {
			c.question = *f.Asked
		}
		if f.Failed == "" && strings.HasPrefix(f.Effect, fsm.AttemptID(c.nonce, c.attempt)+"/stop") {
			c.confirmed = true
		}
	}
}

func (c *claim) deliveryDeferred(at time.Time, f fsm.EffectDeferred) {
	switch {
	case f.Tries == c.tries: // it waits for a stated reset
		c.failing, c.failed, c.doubted = time.Time{}, 0, time.Time{}
		return
	case c.failing.IsZero():
		c.failing, c.failed, c.tries = at, 1, f.Tries
	default:
		c.failed, c.tries = c.failed+1, f.Tries
	}
	switch {
	case f.Why != pushRefused:
		c.doubted, c.doubts = time.Time{}, 0
		return
	case c.doubted.IsZero():
		c.doubted = at
	}
	c.doubts++
}

func (c *claim) begins(at time.Time, f fsm.AttemptBegan) {
	c.attempt, c.confirmed, c.startedAt, c.outcome, c.mine = f.N, false, time.Time{}, "", 0
	c.watchdog, c.life, c.used, c.end = f.WatchdogAt, f.WatchdogAt.Sub(at), recovery.Usage{}, ending{}
	c.validates, c.away, c.delivering, c.agreed = f.Next.Validate, time.Time{}, delivering{}, false
	c.waits, c.lacked, c.waitsSince = false, false, time.Time{}
	if c.counts != c.by.preset { // each policy groups failures differently
		c.counts, c.byReason = c.by.preset, map[string]int{}
	}
	if c.last != nil && !noPolicys(c.last.Row) && !c.healed && !c.granted && !afterSuccess(f.Next) {
		c.byReason[c.counter()]++
	}
	if f.Next.Charges != "" && !c.granted {
		c.redispatches++
	}
	c.granted = false
}

// ofAttempt reports whether a verdict is about how an attempt ended.
func ofAttempt(f fsm.VerdictMade) bool { return f.Stage != "RETRY_WAIT" }

func (c *claim) judge(f fsm.VerdictMade, set settings) {
	v, reason := f.Verdict, f.Finding.Reason
	c.last, c.reason, c.caller, c.healed, c.granted = &v, reason, set.caller(f.Stage), false, false
	// A wait for a contract repeats an attempt that was granted under earlier settings, unless it was the first.
	if v.Row != rowContract || c.by.cfg.Policy == nil {
		c.by = set
	}
	c.resumed = false
	c.kept = v.Row == "director.deliver" && reason != recovery.PolicyViolation &&
		reason != recovery.ScopeViolation && reason != recovery.Validation
	if again(v.Row) { // the delivery's settings also apply to this attempt
		c.by, c.unvalidated = c.ordered, c.attempt
	}
	if v.Action.Again() && v.Row != rowContract {
		c.iterations++
	}
	if v.Row == rowIncident {
		c.incidentWaits++
	}
	if v.Row == rowFixRound {
		c.fixRounds++
		c.fixMost = set.cfg.FixRounds
	}
	if ofAttempt(f) {
		c.verdict = f.Attempt
	}
}

func (c *claim) moved(at time.Time, f fsm.Moved, set settings) {
	c.state, c.since, c.until = f.To, at, f.Until
	if f.To == fsm.Blocked && f.From != fsm.Blocked {
		c.remindAfter = set.cfg.RemindAfter
	}
	if f.From == fsm.Blocked {
		c.asked, c.question = "", fsm.Asked{}
		if f.On == fsm.OnUnblocked && !c.resumed { // an answer without a command is a hint for the agent
			c.kept = false
		}
	}
	if f.On == fsm.OnDeliverAgain { // another verdict about this delivery may follow
		c.verdict = 0
	}
	if f.On == fsm.OnIncidentOver {
		c.healed, c.by = true, set
		c.incidentWaits++
	}
}

func (c *claim) accepts(f fsm.ReportAccepted) {
	c.accepted = append(c.accepted, f.Worker+"/"+f.Ref.ID)
	c.mine++
	if f.Final && !f.OK && !c.end.reported {
		c.end.reported, c.end.stage, c.end.provider = true, f.Stage, f.Provider
		if f.Assertion != nil && f.Assertion.Explicit && c.outcome != fsm.OutcomeOK {
			c.end.word = f.Assertion
		}
	}
	if f.Final && c.outcome == "" {
		c.outcome = fsm.OutcomeFailed
		if f.OK {
			c.outcome = fsm.OutcomeOK
		}
	}
}

// caller returns the configured caller of a stage, or its default.
func (s settings) caller(stage string) string { return cmp.Or(s.cfg.Callers[stage], callerOf(stage)) }

// callerOf returns the default caller of a stage. It is a copy, because the machine's table is under test.
func callerOf(stage string) string {
	switch stage {
	case "", "START":
		return "start"
	case "CODE":
		return "agent"
	case "COMMIT", "PR_CREATE", "SYNC_MAIN":
		return "deliver"
	case "REVIEW":
		return "review"
	}
	return "stage"
}

func (c *claim) counter() string { return string(c.reason) + "/" + c.caller }
