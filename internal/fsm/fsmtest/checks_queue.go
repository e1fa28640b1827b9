package fsmtest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
	"retake/internal/recovery/policy"
)

// mayBegin reports whether a task can begin. A dependency, a cap or too much finished work can prevent it.
func (d decision) mayBegin(tasks []*fsm.Task, t *fsm.Task) bool {
	return len(t.Standing.After) == 0 && (t.State != fsm.Queued || d.mayClaim(tasks)) &&
		(!slices.Contains(t.Standing.Capped, capped) ||
			!slices.ContainsFunc(tasks, func(o *fsm.Task) bool {
				return o != t && slices.Contains(o.Standing.Capped, capped) &&
					(o.State.Info().Slot || o.State == fsm.Backoff && len(o.Outbox) > 0)
			}))
}

// mayClaim reports whether finished work and GitHub permit another claim. It checks the machine's tasks, because the
// journal may lag behind. It computes the result once per step.
func (d decision) mayClaim(tasks []*fsm.Task) bool {
	if d.claimsAt == d.w.steps {
		return d.permits
	}
	finished := 0
	for _, t := range tasks {
		if t.State == fsm.Delivering && len(t.Outbox) > 0 && t.Outbox[0].Tries == 0 {
			finished++
		}
	}
	d.claimsAt = d.w.steps
	d.permits = finished < max(2, d.p.cfg.MaxWorkers) && !slices.ContainsFunc(d.p.m.Cooldowns(),
		func(c fsm.Cooldown) bool { return c.Resource == fsm.GitHubClaims })
	return d.permits
}

// handedIn reports whether few enough finished tasks are waiting for their first delivery to permit another claim.
func (h *history) handedIn() bool {
	waiting := 0
	for _, c := range h.begun {
		if c.state == fsm.Delivering && len(c.outbox) > 0 && c.tries == 0 {
			waiting++
		}
	}
	return waiting < max(2, h.set.cfg.MaxWorkers)
}

func (h *history) claimsClosed(at time.Time) bool { return h.limits.until[fsm.GitHubClaims].After(at) }

func finishedFirst(r record) string {
	if r.claimsClosed(r.at) {
		return string(r.c.key) + " is claimed although claimed issues need the rest of the hourly limit"
	}
	if !r.handedIn() {
		return string(r.c.key) + " is claimed while finished work is waiting for delivery"
	}
	return ""
}

// dequeued applies a check to the claims that leave the queue.
func dequeued(check func(record) string) factCheck {
	return onClaim(func(r record, m fsm.Moved) string {
		if m.On == fsm.OnDispatch && m.From == fsm.Queued {
			return check(r)
		}
		return ""
	})
}

func dependenciesFirst(r record) string {
	if first := r.w.hub.issue(r.c.key).after; first != nil && !first.closed || len(r.c.standing.After) > 0 {
		return fmt.Sprintf("%s begins before %s is closed", r.c.key, first.key)
	}
	return ""
}

func capsKept(r record, m fsm.Moved) string {
	if !m.To.Info().Slot || r.w.directors.set.cfg.Caps == nil {
		return ""
	}
	n := 0
	for _, c := range r.claims {
		if slices.Contains(c.standing.Capped, capped) && (c.key == m.Task || c.state.Info().Slot || c.rereads()) {
			n++
		}
	}
	if n > 1 && slices.Contains(r.c.standing.Capped, capped) && !r.c.state.Info().Slot {
		return fmt.Sprintf("%s takes a slot, so %d tasks with its label hold slots", m.Task, n)
	}
	return ""
}

// longestWaiter checks that the claim with the longest wait is next. It compares claims within one repository, and only
// when no cap or incident applies.
func longestWaiter(r record) string {
	if r.hasIncident() {
		return ""
	}
	c := r.c
	for _, o := range r.claims {
		if o.state == fsm.Queued && o != c && o.key.Repo() == c.key.Repo() && len(o.standing.After) == 0 &&
			len(o.standing.Capped) == 0 && o.turn().Before(c.turn()) {
			return fmt.Sprintf("%s begins, although %s has waited longer", c.key, o.key)
		}
	}
	return ""
}

// turn returns the time that determines the order of the queue: the start of the wait, minus an hour per point of
// priority.
func (c *claim) turn() time.Time { return c.since.Add(-time.Duration(c.standing.Priority) * time.Hour) }

// slotsLowered records how many tasks have a slot, because they may now outnumber the slots.
func slotsLowered[F fsm.Fact](r record, _ F) string {
	r.crowded = max(r.crowded, r.slots(""))
	return ""
}

func slotForRereading(r record, f fsm.EffectPlanned) string {
	if f.Effect.Kind != fsm.DoRecheck && f.Effect.Kind != fsm.DoClaim {
		return ""
	}
	if c := r.c; c.state == fsm.Backoff && r.slots(c.key) > r.set.cfg.MaxWorkers {
		return fmt.Sprintf("%s is reread to get a slot, but there are only %d slots", c.key, r.set.cfg.MaxWorkers)
	}
	return ""
}

func slotsHeld(r record, m fsm.Moved) string {
	if !m.To.Info().Slot {
		return ""
	}
	n, most := r.slots(m.Task), r.set.cfg.MaxWorkers
	if n <= most {
		r.crowded = 0
	}
	if m.From != fsm.Queued {
		most = max(most, r.crowded)
	}
	if n > most {
		return fmt.Sprintf("%d tasks hold slots, but there are only %d slots", n, most)
	}
	return ""
}

// slots returns the number of tasks with a slot, including the given task.
func (h *history) slots(with fsm.IssueKey) (n int) {
	for _, c := range h.begun {
		if c.key == with || c.state.Info().Slot || c.rereads() {
			n++
		}
	}
	if c := h.claim(with); c != nil && c.state == fsm.Queued {
		n++
	}
	return n
}

// rereads reports whether the issue is being read again for the next attempt.
func (c *claim) rereads() bool {
	return c.state == fsm.Backoff && slices.ContainsFunc(c.outbox,
		func(id string) bool { return strings.Contains(id, "/claim") || strings.Contains(id, "/recheck") })
}

func hostOpen(r record, m fsm.Moved) string {
	if closed := r.limits.until[recovery.Host]; m.On == fsm.OnDispatch && closed.After(r.at) {
		return fmt.Sprintf("%s is dispatched, but the machine is closed until %s", m.Task, closed)
	}
	return ""
}

func hostOpenForNext(r record, f fsm.EffectPlanned) string {
	if closed := r.limits.until[recovery.Host]; f.Effect.Kind == fsm.DoRecheck && closed.After(r.at) {
		return fmt.Sprintf("%s is planned, but the machine is closed until %s", f.Effect.ID, closed)
	}
	return ""
}

func githubOpen(d decision) string {
	for _, e := range d.effects {
		if githubKinds[e.Kind] && d.p.closed() {
			return e.ID + " is decided while GitHub is closed"
		}
	}
	return ""
}

func withinBudget(r record, b fsm.AttemptBegan) string {
	c := r.c
	if afterSuccess(b.Next) { // the check leavesValidation limits these attempts
		return ""
	}
	if c.last == nil {
		if b.Next.Charges != "" {
			return fmt.Sprintf("attempt %d of %s is charged without a verdict", b.N, b.Task)
		}
		return ""
	}
	if wrong := c.exceeds(r.set.of(c), b); wrong != "" {
		return fmt.Sprintf("attempt %d of %s: %s", b.N, b.Task, wrong)
	}
	return ""
}

// exceeds describes the budget that an attempt after a verdict exceeds, or returns "".
func (c *claim) exceeds(set settings, b fsm.AttemptBegan) string {
	g := set.cfg.Policy.Guards()
	g.IterationBudget = c.by.cfg.Policy.Guards().IterationBudget // The new values of the other guards apply at once.
	switch {
	case b.Next.Reason != c.reason:
		return fmt.Sprintf("it is for %q, but the verdict was about %s", b.Next.Reason, c.reason)
	case c.incidentWaits > maxIncidentWaits:
		return fmt.Sprintf("waited for an incident %d times", c.incidentWaits)
	case c.usedUp(g) != "" && (!b.Next.Validate || b.Next.Charges != ""):
		return c.usedUp(g) // The budgets also bound free attempts after an incident.
	case c.last.Row == rowIncident || c.healed: // bounded by incidentWaits
	case c.last.Row == rowContract: // the attempt before it could not begin
	case !c.last.Action.Again():
		return fmt.Sprintf("the verdict was %s", c.last.Action)
	case c.granted: // the attempt was granted before a person reset the meters
	case c.fixRounds > 0 && c.fixRounds >= c.fixMost:
		return fmt.Sprintf("%d fix rounds after the first", c.fixRounds)
	case !noPolicys(c.last.Row) && c.counts == c.by.preset &&
		c.byReason[c.counter()] >= retries(c.by.cfg.Policy, c.reason, c.caller):
		return fmt.Sprintf("%s has already led to %d attempts", c.counter(), c.byReason[c.counter()])
	case b.Next.Charges != "" && c.redispatches >= c.by.limits.MaxRetries:
		return fmt.Sprintf("director.max_retries = %d is used up", c.by.limits.MaxRetries)
	case b.Next.Charges == "" && c.by.preset == "director" && c.last.Row != rowFixRound && !c.last.Action.About().Free:
		return fmt.Sprintf("%s is not charged", c.last.Action)
	}
	return ""
}

// The specified limit on how often incidents may make a task wait, and the row of a verdict that makes it wait.
const (
	maxIncidentWaits = 10
	rowIncident      = "director.incident"
)

// usedUp describes the exhausted budget that prevents another attempt, or returns "".
func (c *claim) usedUp(g policy.Guards) string {
	iterations := c.iterations
	if c.healed {
		iterations++ // the attempt has no verdict
	}
	switch {
	case g.PaidCallBudget > 0 && c.calls >= int64(g.PaidCallBudget):
		return fmt.Sprintf("%d paid calls were made, but the budget is %d", c.calls, g.PaidCallBudget)
	case g.CostBudgetUSD > 0 && c.cost >= g.CostBudgetUSD:
		return fmt.Sprintf("it has cost %.2f, but the budget is %.2f", c.cost, g.CostBudgetUSD)
	case g.IterationBudget > 0 && iterations > g.IterationBudget:
		return fmt.Sprintf("it was granted %d times, but the budget is %d", iterations, g.IterationBudget)
	}
	return ""
}

func affords(d decision) string {
	if _, hello := d.body.(fsm.Hello); hello {
		return ""
	}
	for _, worker := range speakers(d.body) {
		if wrong := affordsAttempt(d.p, worker); wrong != "" {
			return wrong
		}
	}
	return ""
}

func affordsAttempt(p *process, worker string) string {
	t, current := p.m.Worker(worker)
	if !current || t.State == fsm.Stopping || t.Validates { // validations are free
		return ""
	}
	calls, cost := t.Used.PaidCalls, t.Used.CostUSD
	if a, _ := t.Activity(); a.Usage != nil {
		calls, cost = max(calls, a.Usage.PaidCalls), max(cost, a.Usage.CostUSD)
	}
	g := p.project(t.Key).Policy.Guards()
	switch {
	case g.PaidCallBudget > 0 && t.Tally.PaidCalls+calls > int64(g.PaidCallBudget):
		return fmt.Sprintf("%s has used %d paid calls before this attempt and %d in it, but continues", t.Key,
			t.Tally.PaidCalls, calls)
	case g.CostBudgetUSD > 0 && t.Tally.CostUSD+cost > g.CostBudgetUSD:
		return fmt.Sprintf("%s has cost %.2f before this attempt and %.2f in it, but continues", t.Key, t.Tally.CostUSD,
			cost)
	}
	return ""
}

func usageRises(r record, f fsm.UsageCounted) string {
	if f.PaidCalls == nil && f.Usage.PaidCalls < r.c.used.PaidCalls {
		return fmt.Sprintf("%s had made %d paid calls, but only %d are counted",
			f.Task, r.c.used.PaidCalls, f.Usage.PaidCalls)
	}
	return ""
}

func usageCounted(r record, f fsm.VerdictMade) string {
	if r.c.used.PaidCalls > 0 {
		return fmt.Sprintf("%s is judged, but %d paid calls of its attempt are not counted", f.Task, r.c.used.PaidCalls)
	}
	return ""
}

func usageRestored(h *history, p *process) string {
	for _, c := range h.claims {
		if t := p.m.Task(c.key); t != nil && (t.Used.PaidCalls != c.used.PaidCalls || t.Tally.PaidCalls != c.calls) {
			return fmt.Sprintf("p%d finds %d and %d paid calls of %s, but the journal has %d and %d", p.id,
				t.Tally.PaidCalls, t.Used.PaidCalls, c.key, c.calls, c.used.PaidCalls)
		}
	}
	return ""
}

// usageDurable checks that a paid call in a heartbeat becomes a fact in the same step.
func usageDurable(d decision) string {
	for _, b := range signsIn(d.body) {
		if t, current := d.p.m.Worker(b.Worker); current && b.Activity.Usage != nil &&
			t.Used.PaidCalls < b.Activity.Usage.PaidCalls {
			return fmt.Sprintf("%s has made %d paid calls, but the machine has %d",
				b.Worker, b.Activity.Usage.PaidCalls,
				t.Used.PaidCalls)
		}
	}
	return ""
}
