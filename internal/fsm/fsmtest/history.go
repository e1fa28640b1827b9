package fsmtest

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

// history is what the journal says, told by a dumb twin of Apply: it knows of each claim just what the invariants ask.
type history struct {
	w         *world
	set       settings // by which the facts were decided that come now
	crowded   int      // tasks with a slot when their number was lowered; 0: no more than there are workers
	claims    []*claim // not over, in order of arrival
	before    *process // the leader that crashed, until the next has begun
	rows      *rules   // of the table, those that are asked
	record    int      // records so far
	decider   int      // the director that the last record is of
	incidents []fsm.Incident
	strikes   map[string][]recovery.Strike // by incident: failures that count since it was healed or began
	judged    fsm.IssueKey                 // the task of the last verdict
	moves     []int                        // by row of the table of transitions
	saved     int                          // when the last snapshot was made
	taken     map[fsm.CommandRef]string    // commands, and why they were refused
	answered  map[fsm.CommandRef]bool      // those that were answered on GitHub
	listens   map[string]int64             // by repository: since when the director hears what is said, in seconds
	phase     fsm.Phase
	limits    *limits
	closed    time.Time      // the end of the last cooldown so far
	open      map[string]int // durable effects that are planned and not done: how often they were planned
	twin      *fsm.Machine   // of the machine before the step under way, now and then
}

// claim is one claim of an issue.
type claim struct {
	key     fsm.IssueKey
	nonce   string
	state   fsm.State
	since   time.Time
	until   time.Time // the state's own deadline
	attempt int

	confirmed bool      // the current attempt's container is confirmed gone, or there is none yet
	began     time.Time // the current attempt's
	startedAt time.Time // when its container was confirmed to run
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
	mine      int // of the current attempt

	used       recovery.Usage // by the current attempt, as far as the journal says
	calls      int64          // paid, since a human last answered, by the attempts that are over
	cost       float64
	iterations int // verdicts since then that grant another attempt

	redispatches  int
	byReason      map[string]int    // by reason and caller, under the policy that counts
	counts        string            // its preset
	last          *recovery.Verdict // since a human last answered
	by            settings          // that the next attempt was granted by
	ordered       settings          // that its last delivery was ordered by
	remindAfter   time.Duration     // of the question
	reason        recovery.Reason   // that it was about
	caller        string            // whose failure it was
	incidentWaits int               // times since then that it was an incident's failure, or healed with it
	fixMost       int               // rounds, when the last one was granted
	fixRounds     int               // times that a clean container's refusal was the agent's to mend
	healed        bool              // it goes on because an incident is over

	away     time.Time // since when the start under way waits for a server
	standing fsm.Standing

	reviewed
	delivering
	placed
}

// ending is who failed in the current attempt, as the facts have it.
type ending struct {
	reported        bool
	stage, provider string          // of the first final report of a failure
	known           recovery.Reason // by the director itself
	uses            string          // what it used then
}

func newHistory(w *world) *history {
	return &history{
		w: w, limits: newLimits(), strikes: map[string][]recovery.Strike{}, phase: fsm.PhaseMonitor,
		open: map[string]int{}, taken: map[fsm.CommandRef]string{}, answered: map[fsm.CommandRef]bool{},
		listens: map[string]int64{}, moves: make([]int, len(fsm.Transitions)), rows: newRules(w.without),
	}
}

func (h *history) claim(k fsm.IssueKey) *claim {
	for _, c := range h.claims {
		if c.key == k {
			return c
		}
	}
	return nil
}

// of returns the claim that a worker's id belongs to.
func (h *history) of(worker string) (*claim, int) {
	nonce, n, _ := fsm.ParseAttemptID(worker)
	for _, c := range h.claims {
		if c.nonce == nonce {
			return c, n
		}
	}
	return nil, n
}

// take changes the twin by a fact.
func (h *history) take(at time.Time, f fsm.Fact) {
	for _, i := range h.incidents {
		if s := i.Breaker.State(at); (s == recovery.BreakerOpen || s == recovery.BreakerHalfOpen) &&
			at.After(h.closed) {
			h.closed = at
		}
	}
	h.limits.take(at, f)
	if about := h.subject(f); about != nil {
		h.takeReview(about, f)
	}
	h.takeDelivery(at, f)
	h.takePlacement(at, f)
	h.takeOutage(at, f)
	switch f := f.(type) {
	case fsm.PhaseChanged:
		h.phase = f.To
	case fsm.CursorAdvanced:
		h.listen(f)
	case fsm.CommandTaken:
		h.taken[f.CommandRef] = f.Refused
	case fsm.WorkDelivered:
		if c := h.claim(f.Task); c != nil {
			if c.work = f.Delivery; f.Delivery.PullRequest > 0 {
				c.byReason, c.fixRounds = map[string]int{}, 0
			}
		}
	case fsm.IncidentChanged:
		h.strike(at, f)
		h.incidents = slices.DeleteFunc(h.incidents, func(i fsm.Incident) bool { return i.Key == f.Incident.Key })
		if !f.Over {
			h.incidents = append(h.incidents, f.Incident)
		}
	case fsm.CooldownSet:
		if f.Until.After(h.closed) {
			h.closed = f.Until
		}
	case fsm.CooldownLifted:
		h.closed = at
		for _, until := range h.limits.until {
			if until.After(h.closed) {
				h.closed = until
			}
		}
	case fsm.TaskQueued:
		h.claims = append(h.claims, &claim{
			key: f.Task, nonce: f.Nonce, state: fsm.Queued, since: at,
			standing: f.Standing, confirmed: true, byReason: map[string]int{},
		})
	case fsm.StandingChanged:
		if c := h.claim(f.Task); c != nil {
			c.standing = f.Standing
		}
	case fsm.Moved:
		if c := h.claim(f.Task); c != nil {
			h.moved(c, at, f)
		}
	case fsm.AttemptBegan:
		if c := h.claim(f.Task); c != nil {
			c.attempt, c.confirmed, c.began, c.startedAt, c.outcome, c.mine = f.N, false, at, time.Time{}, "", 0
			c.watchdog, c.used, c.end = f.WatchdogAt, recovery.Usage{}, ending{}
			c.life = f.WatchdogAt.Sub(at)
			c.validates = f.Next.Validate
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
	case fsm.ContainerStarted:
		if c := h.claim(f.Task); c != nil {
			c.startedAt, c.helloBy, c.watchdog = at, f.HelloBy, f.WatchdogAt
		}
	case fsm.WatchdogMoved:
		if c := h.claim(f.Task); c != nil {
			c.watchdog = f.At
		}
	case fsm.ReportAccepted:
		if c := h.claim(f.Task); c != nil {
			h.accepted(c, f)
		}
	case fsm.EndingSet:
		if c := h.claim(f.Task); c != nil {
			if f.Outcome == fsm.OutcomeWithdrawn {
				c.outcome = f.Outcome
			}
			if c.end.known == "" {
				c.end.known, c.end.uses = f.Known, f.Resource
			}
		}
	case fsm.VerdictMade:
		h.judged = f.Task
		if c := h.claim(f.Task); c != nil {
			v := f.Verdict
			c.last, c.reason, c.caller, c.healed, c.by = &v, f.Finding.Reason, callerOf(f.Stage), false, h.set
			if again(v.Row) { // the delivery was told that there may be another attempt
				c.by = c.ordered
			}
			if v.Action.Again() {
				c.iterations++
			}
			if v.Row == rowIncident {
				c.incidentWaits++
			}
			if v.Row == rowFixRound {
				c.fixRounds++
				c.fixMost = h.set.cfg.FixRounds
			}
			if ofAttempt(f) {
				c.verdict = f.Attempt
			}
		}
	case fsm.TallyReset:
		if c := h.claim(f.Task); c != nil {
			c.redispatches, c.byReason, c.incidentWaits, c.fixRounds = f.Redispatches, map[string]int{}, 0, 0
			if c.granted = f.Next.Reason != ""; !c.granted {
				c.last, c.healed = nil, false
			}
			c.calls, c.cost, c.iterations = 0, 0, 0
		}
	case fsm.UsageCounted:
		switch c := h.claim(f.Task); {
		case c == nil:
		case f.PaidCalls != nil:
			c.calls = *f.PaidCalls
		case f.Ended:
			c.calls, c.cost, c.used = c.calls+f.Usage.PaidCalls, c.cost+f.Usage.CostUSD, recovery.Usage{}
		default:
			c.used = f.Usage
		}
	case fsm.EffectPlanned:
		if c := h.claim(f.Effect.Task); c != nil {
			c.outbox, c.planned = append(c.outbox, f.Effect.ID), append(c.planned, f.Effect.ID)
			h.open[f.Effect.ID]++
			if f.Effect.Kind == fsm.DoDeliver {
				c.ordered = h.set
			}
			if f.Effect.Kind == fsm.DoEscalate {
				c.asked = f.Effect.ID
			}
		}
	case fsm.EffectDone:
		if c := h.claim(f.Task); c != nil {
			h.done(c, f)
		}
	}
}

// ofAttempt reports whether a verdict is about how an attempt ended.
func ofAttempt(f fsm.VerdictMade) bool { return f.Stage != "RETRY_WAIT" }

func (h *history) moved(c *claim, at time.Time, f fsm.Moved) {
	c.state, c.since, c.until = f.To, at, f.Until
	if i := slices.IndexFunc(fsm.Transitions, func(x fsm.Transition) bool {
		return x.On == f.On && x.To == f.To && slices.Contains(x.From, f.From)
	}); i >= 0 {
		h.moves[i]++
	}
	if f.To == fsm.Blocked && f.From != fsm.Blocked {
		c.remindAfter = h.set.cfg.RemindAfter
	}
	if f.From == fsm.Blocked {
		c.asked = ""
	}
	if f.On == fsm.OnDeliverAgain { // there may be another one, about this delivery
		c.verdict = 0
	}
	if f.On == fsm.OnIncidentOver {
		c.healed, c.by = true, h.set
		c.incidentWaits++
	}
	h.over(c)
}

func (h *history) accepted(c *claim, f fsm.ReportAccepted) {
	c.accepted = append(c.accepted, f.Worker+"/"+f.Ref.ID)
	c.mine++
	if f.Final && !f.OK && !c.end.reported {
		c.end.reported, c.end.stage, c.end.provider = true, f.Stage, f.Provider
	}
	if f.Final && c.outcome == "" {
		c.outcome = fsm.OutcomeFailed
		if f.OK {
			c.outcome = fsm.OutcomeOK
		}
	}
}

// strike keeps the failures of an incident until it is healed.
func (h *history) strike(at time.Time, f fsm.IncidentChanged) {
	key, b := f.Incident.Key, f.Incident.Breaker
	switch s := h.fresh(at, f); {
	case f.Over:
		delete(h.strikes, key)
	case !b.RampFrom.IsZero() && h.incident(key).Breaker.RampFrom.IsZero():
		h.strikes[key] = nil
	case s != nil:
		h.strikes[key] = append(h.strikes[key], *s)
	}
}

// fresh is the failure that a fact about an incident adds; nil: it adds none.
func (h *history) fresh(at time.Time, f fsm.IncidentChanged) *recovery.Strike {
	s := f.Incident.Breaker.Strikes
	if last := len(s) - 1; !f.Over && last >= 0 && s[last].At.Equal(at) &&
		!slices.Contains(h.incident(f.Incident.Key).Breaker.Strikes, s[last]) {
		return &s[last]
	}
	return nil
}

func (h *history) incident(key string) fsm.Incident {
	for _, i := range h.incidents {
		if i.Key == key {
			return i
		}
	}
	return fsm.Incident{}
}

func (h *history) done(c *claim, f fsm.EffectDone) {
	for i, id := range c.outbox {
		if id == f.Effect {
			c.outbox = append(c.outbox[:i:i], c.outbox[i+1:]...)
			delete(h.open, id)
			break
		}
	}
	if f.Failed == "" && c.stops(f.Effect) {
		c.confirmed = true
	}
	h.over(c)
}

// over forgets a claim that has ended: there is nothing left of it to be asked for.
func (h *history) over(c *claim) {
	if len(c.outbox) > 0 || c.state != fsm.Forgotten && !c.state.Info().Final {
		return
	}
	for i := range h.claims {
		if h.claims[i] == c {
			h.claims = append(h.claims[:i:i], h.claims[i+1:]...)
			return
		}
	}
}

// callerOf is the part of the director that a stage belongs to. (Written down once more: the table is what is
// searched.)
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

// subject is the claim that a fact is about, if the twin of its review asks.
func (h *history) subject(f fsm.Fact) *claim {
	switch f := f.(type) {
	case fsm.VerdictMade:
		return h.claim(f.Task)
	case fsm.ReviewNoted:
		return h.claim(f.Task)
	case fsm.WorkPushed:
		return h.claim(f.Task)
	case fsm.EffectPlanned:
		return h.claim(f.Effect.Task)
	}
	return nil
}

// listen notes since when the comments of a repository are heard.
func (h *history) listen(f fsm.CursorAdvanced) {
	if repo, comments := strings.CutSuffix(f.Repo, " comments"); comments {
		if _, known := h.listens[repo]; !known {
			h.listens[repo], _ = strconv.ParseInt(f.Cursor, 10, 64)
		}
	}
}
