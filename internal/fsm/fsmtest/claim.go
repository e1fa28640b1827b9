package fsmtest

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

// claim is one claim of an issue, as the journal tells it.
type claim struct {
	key     fsm.IssueKey
	nonce   string
	state   fsm.State
	since   time.Time
	until   time.Time // the state's own deadline
	attempt int

	confirmed bool      // the current attempt's container is confirmed gone, or was never made
	startedAt time.Time // when the current attempt's container was confirmed to run
	helloBy   time.Time
	watchdog  time.Time
	life      time.Duration // that its plan gives it
	verdict   int           // the last attempt on which a verdict was made
	outcome   fsm.Outcome
	validates bool // the current attempt only validates
	end       ending
	asked     string // the escalation that is planned or done for it
	outbox    []string
	planned   []string // every id of this claim
	accepted  []string
	mine      int // accepted reports of the current attempt

	used       recovery.Usage // by the current attempt, according to the journal
	calls      int64          // paid by earlier attempts since a human last answered
	cost       float64
	iterations int // verdicts since then that grant another attempt

	redispatches  int
	byReason      map[string]int    // by reason and caller, under the policy that counts
	counts        string            // the preset of that policy
	last          *recovery.Verdict // since a human last answered
	reason        recovery.Reason   // of that verdict
	caller        string            // the part that failed
	by            settings          // that granted the next attempt
	ordered       settings          // that ordered its last delivery
	remindAfter   time.Duration     // of the question
	incidentWaits int               // failures of an incident, and goings-on after one, since a human last answered
	fixRounds     int               // refusals of a clean container that the agent had to mend
	fixMost       int               // rounds, when the last one was granted
	healed        bool              // its incident has ended

	away     time.Time // since when the start under way waits for a server
	standing fsm.Standing

	work        fsm.DeliverResult // that was shown last
	unvalidated int               // the last attempt whose merge needs another one to validate it
	noted       fsm.Reviewed      // of the pull request
	heads       []string          // commits whose checks, or whose conflict, led to an attempt
	question    fsm.Asked         // that is on the issue, without an answer
	reminded    string            // the question that was raised once more
	granted     bool              // the pending attempt was granted before a person set the meters

	delivering
	placed
}

// ending is the failing part of the current attempt, according to the facts.
type ending struct {
	reported        bool
	stage, provider string          // of the first final report of a failure
	known           recovery.Reason // by the director
	uses            string          // the resource that it used
	// word is the explicit word in the first final report of a failure
	word *recovery.Assertion
}

// delivering is a claim's finished work that is not handed in.
type delivering struct {
	failing time.Time // since when the delivery under way fails; zero while it waits for a stated reset
	failed  int       // how often in a row
	tries   int       // according to the last fact
	doubted time.Time // since when the push seems to be refused; zero after a wait for a stated reset
	doubts  int       // how often in a row
	kept    bool      // a person was asked about the delivery instead of the work
	resumed bool      // that person wants it handed in, and has nothing to say to the agent
	told    bool      // people have spoken to the agent, without a command since
}

// placed is the journal's view of an attempt's place.
type placed struct {
	waits, lacked bool // for room; for an image
	waitsSince    time.Time
	waitsUntil    time.Time
	stopPlanned   time.Time // of the current attempt
	stopGrace     time.Duration
	fenced        map[int]bool // attempts
}

// take changes the twin of a claim by a fact about it, which was decided by the given settings.
func (c *claim) take(at time.Time, f fsm.Fact, set settings) {
	switch f := f.(type) {
	case fsm.StandingChanged:
		c.standing = f.Standing
	case fsm.Moved:
		c.moved(at, f, set)
	case fsm.AttemptBegan:
		c.begins(at, f)
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

// takePeople changes the twin by statements of people, and by work that people were shown.
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
		if f.Answers { // its text is a hint, whenever it was recorded
			c.told, c.resumed = true, false
		}
	case fsm.HintsGiven: // the command before has something to say to the agent
		if c.resumed {
			c.kept, c.resumed = false, false
		} else {
			c.told = true
		}
	case fsm.TallyReset: // it answers the question
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

// takeEffect changes the twin by an effect that is planned, put off or done.
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
	c.validates, c.away, c.delivering = f.Next.Validate, time.Time{}, delivering{}
	c.waits, c.lacked, c.waitsSince = false, false, time.Time{}
	if c.counts != c.by.preset { // another policy counts by other units
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
	c.last, c.reason, c.caller, c.healed, c.by, c.granted = &v, reason, set.caller(f.Stage), false, set, false
	c.resumed = false
	c.kept = v.Row == "director.deliver" && reason != recovery.PolicyViolation &&
		reason != recovery.ScopeViolation && reason != recovery.Validation
	if again(v.Row) { // the delivery knew that there may be another attempt
		c.by, c.unvalidated = c.ordered, c.attempt
	}
	if v.Action.Again() {
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
		if f.On == fsm.OnUnblocked && !c.resumed { // an answer without a command says something to the agent
			c.kept = false
		}
	}
	if f.On == fsm.OnDeliverAgain { // another verdict may follow, about this delivery
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

// callerOf is the part of the director that a stage belongs to. The machine's own table is under test, so this is a
// copy.
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
