package fsmtest

import (
	"fmt"
	"slices"
	"strings"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

func runsAlone(h *history, p *process, e fsm.Effect) string {
	if e.Kind != fsm.DoStart || p != h.w.directors.lead {
		return ""
	}
	for _, b := range h.w.runtime.containers {
		if b.issue == e.Task && b.attempt != e.Worker && b.canCount() {
			return fmt.Sprintf("%s starts while the container of %s exists", e.Worker, b.attempt)
		}
	}
	return ""
}

func welcomesTheCurrent(h *history, p *process, e fsm.Effect) string {
	if e.Kind != fsm.DoWelcome {
		return ""
	}
	c, n := h.of(e.Worker)
	if c == nil || c.attempt != n || !c.state.Info().Live {
		return fmt.Sprintf("p%d welcomes %s, which is an earlier attempt", p.id, e.Worker)
	}
	if c.state == fsm.Starting {
		return fmt.Sprintf("%s is welcomed, although the journal says Starting", e.Worker)
	}
	return ""
}

// decidesForOthers describes a decision about a claim caused by an earlier attempt's worker, or returns "".
func decidesForOthers(c *claim, worker string, facts []fsm.Fact) string {
	for _, f := range facts {
		switch f := f.(type) {
		case fsm.ReportAccepted:
			return fmt.Sprintf("a message from %s counts for %s", worker, f.Worker)
		case fsm.WorkerAnswered:
			if f.Welcome {
				return fmt.Sprintf("%s says hello, but %s is welcomed", worker, f.Worker)
			}
		case fsm.Moved:
			if f.Task == c.key && (f.On == fsm.OnHello || f.On == fsm.OnSeenAgain || f.On == fsm.OnReport ||
				f.On == fsm.OnIncompatible) {
				return fmt.Sprintf("a message from %s moves attempt %d: %s", worker, f.Attempt, f.On)
			}
		}
	}
	return ""
}

// speakers returns the workers that sent the messages in an event.
func speakers(body fsm.EventBody) (all []string) {
	switch b := body.(type) {
	case fsm.Hello:
		return []string{b.Worker}
	case fsm.ReportReceived:
		return []string{b.Worker}
	}
	for _, s := range signsIn(body) {
		all = append(all, s.Worker)
	}
	return all
}

// signsIn returns the signs of life in an event.
func signsIn(body fsm.EventBody) (all []fsm.WorkerSeen) {
	switch b := body.(type) {
	case fsm.WorkerSeen:
		return []fsm.WorkerSeen{b}
	case fsm.WorkersSeen:
		for _, s := range b.Signs {
			all = append(all, s.WorkerSeen)
		}
	}
	return all
}

func plannedInJournal(h *history, p *process, e fsm.Effect) string {
	if e.Kind.Durable() && p == h.w.directors.lead && h.open[e.ID] == 0 {
		return e.ID + " is not planned in the journal"
	}
	return ""
}

func oneUnderWay(_ *history, p *process, e fsm.Effect) string {
	if !e.Kind.Durable() {
		return ""
	}
	for _, f := range p.flight {
		if f.effect.Task == e.Task && !f.over {
			return e.ID + " is handed out while another effect of its task is still running: " + f.effect.ID
		}
	}
	return ""
}

func outboxIsTheJournals(h *history, p *process) string {
	var has, wants []string
	for _, t := range p.m.Tasks() {
		for _, e := range t.Outbox {
			has = append(has, e.Effect.ID)
		}
	}
	for _, c := range h.claims {
		wants = append(wants, c.outbox...)
	}
	if !slices.Equal(has, wants) {
		return fmt.Sprintf("p%d has the outbox %v, but the journal has %v", p.id, has, wants)
	}
	return ""
}

func replayedAtCrash(h *history, p *process) string {
	if h.before == nil || !h.before.d.Idle() {
		return ""
	}
	return differ(h.before.m, p.m)
}

func replayed(h *history, p *process) string {
	if p != h.w.directors.lead || !p.d.Idle() {
		return ""
	}
	m := fsm.New(p.cfg)
	if err := h.w.directors.journal.load(m); err != nil {
		return err.Error()
	}
	return differ(p.m, m)
}

func differ(lived, read *fsm.Machine) string {
	a, b := hardSum(lived), hardSum(read)
	if a == b {
		return ""
	}
	x, _ := lived.Snapshot()
	y, _ := read.Snapshot()
	return fmt.Sprintf("live state %x, replayed state %x:\n%s\n%s", a, b, x, y)
}

func bounded(h *history, p *process) string {
	tasks := p.m.Tasks()
	if len(tasks) > len(h.w.hub.issues) {
		return fmt.Sprintf("%d tasks, but only %d issues", len(tasks), len(h.w.hub.issues))
	}
	for _, t := range tasks {
		if len(t.Reports) > 16 || len(t.History) > 5 || len(t.Hints) > 10 || len(t.Outbox) > 3 {
			return fmt.Sprintf("%s stores %d reports, %d failures, %d hints, %d effects", t.Key, len(t.Reports),
				len(t.History), len(t.Hints), len(t.Outbox))
		}
	}
	if n := elements(p.m); n > baseElements+len(tasks)*taskElements {
		return fmt.Sprintf("%d list elements for %d tasks", n, len(tasks))
	}
	return ""
}

func fenced(d decision) string {
	if len(d.facts) == 0 || d.p != d.w.directors.lead {
		return ""
	}
	all := speakers(d.body)
	for _, worker := range all {
		c, n := d.of(worker)
		// A worker of the current attempt in the same event may have moved the task.
		current := func(other string) bool { o, k := d.of(other); return o == c && k >= c.attempt }
		if c == nil || n >= c.attempt || slices.ContainsFunc(all, current) {
			continue
		}
		if wrong := decidesForOthers(c, worker, d.facts); wrong != "" {
			return wrong
		}
	}
	return ""
}

// withinItsLease permits effects of a dead director, because they may already have been under way.
func withinItsLease(h *history, p *process, e fsm.Effect) string {
	if p.lease != nil && !p.dead && h.w.directors.lead != p {
		return fmt.Sprintf("p%d executes %s, but p%d leads", p.id, e.ID, h.w.directors.lead.id)
	}
	return ""
}

// decidesInTurn relies on directors being numbered in the order in which they began.
func decidesInTurn(r record, _ fsm.Fact) string {
	if r.p.id < r.decider {
		return fmt.Sprintf("p%d decided at %s, after a decision by p%d", r.p.id, r.at.Sub(epoch), r.decider)
	}
	r.decider = r.p.id
	return ""
}

func reportKept(h *history, r *report) string {
	const most = 15 // One more entry is reserved for the first final report.
	c, n := h.of(r.worker)
	if c == nil || c.attempt != n || !c.state.Info().Live || r.body.Exit || c.mine >= most {
		return ""
	}
	if !slices.Contains(c.accepted, r.worker+"/"+r.body.Ref.ID) {
		return fmt.Sprintf("%s of %s was acknowledged, but is not in the journal", r.body.Ref.ID, r.worker)
	}
	return ""
}

func acceptedOnce(r record, f fsm.ReportAccepted) string {
	if slices.Contains(r.c.accepted, f.Worker+"/"+f.Ref.ID) {
		return fmt.Sprintf("%s of %s is accepted twice", f.Ref.ID, f.Worker)
	}
	return ""
}

func judgedOnce(r record, f fsm.VerdictMade) string {
	if ofAttempt(f) && r.c.verdict == f.Attempt {
		return fmt.Sprintf("second verdict on attempt %d of %s", f.Attempt, f.Task)
	}
	return ""
}

func successDelivered(r record, m fsm.Moved) string {
	c := r.c
	switch {
	case m.From != fsm.Stopping:
	case c.outcome == fsm.OutcomeOK && r.w.directors.set.of(c).cfg.CleanValidation && !c.validates:
		if m.On != fsm.OnValidate {
			return fmt.Sprintf("attempt %d of %s succeeded and needs validation, but moved to %s", c.attempt, c.key,
				m.To)
		}
	case c.outcome == fsm.OutcomeOK && m.To != fsm.Delivering && !c.fenced[c.attempt],
		c.outcome == fsm.OutcomeWithdrawn && m.To != fsm.Released,
		c.outcome != fsm.OutcomeOK && m.To == fsm.Delivering:
		return fmt.Sprintf("attempt %d of %s ended with %q, but moved to %s", c.attempt, c.key, c.outcome, m.To)
	}
	return ""
}

// judgedByItsReport checks that the first final report decides how an attempt is judged. The director's report of an
// exit is also final.
func judgedByItsReport(d decision, e fsm.EffectEnded) string {
	if e.Stop == nil || !slices.ContainsFunc(d.facts,
		func(f fsm.Fact) bool { m, ok := f.(fsm.Moved); return ok && m.Task == e.Task && m.From == fsm.Stopping }) {
		return ""
	}
	first := slices.IndexFunc(e.Stop.Reports, func(r fsm.Report) bool { return r.Final })
	t := d.p.m.Task(e.Task)
	if first < 0 || e.Stop.Reports[first].Exit || t == nil || t.Ending.Outcome != fsm.OutcomeFailed {
		return ""
	}
	if t.Ending.Report == nil || t.Ending.Report.ID == t.AttemptID()+"/exit" {
		return fmt.Sprintf("%s: %s reported %s, but its end is judged without that report: %q", e.Effect, t.AttemptID(),
			e.Stop.Reports[first].Ref.ID, t.Ending.Known)
	}
	return ""
}

// closedIsReleased checks that a claim is released if its delivery found the issue closed.
func closedIsReleased(d decision, e fsm.EffectEnded) string {
	if e.Claim == nil || e.Claim.Ours || !delivers(e.Effect) || len(d.facts) == 0 { // a repeated outcome has no facts
		return ""
	}
	for _, f := range d.facts {
		if m, ok := f.(fsm.Moved); ok && m.Task == e.Task && m.To == fsm.Released {
			return ""
		}
	}
	return fmt.Sprintf("%s found the issue closed, but %s was not released", e.Effect, e.Task)
}

func delivers(effect string) bool { return strings.Contains(effect, "/"+string(fsm.DoDeliver)) }

func beginsAfterStop(r record, b fsm.AttemptBegan) string {
	c := r.c
	switch {
	case c == nil:
		return "an attempt without a claim: " + string(b.Task)
	case !c.confirmed:
		return fmt.Sprintf("attempt %d of %s begins before attempt %d is confirmed stopped", b.N, b.Task, c.attempt)
	case b.N != c.attempt+1:
		return fmt.Sprintf("attempt %d of %s follows attempt %d", b.N, b.Task, c.attempt)
	case c.attempt > 0:
		if x := r.w.runtime.container(fsm.AttemptID(c.nonce, c.attempt)); x != nil && x.running && x.canCount() {
			return fmt.Sprintf("attempt %d of %s begins, but the container of attempt %d is still running", b.N, b.Task,
				c.attempt)
		}
	}
	return ""
}

func inTheTable(r record, m fsm.Moved) string {
	if to, ok := m.From.After(m.On); !ok || to != m.To || r.c == nil || r.c.state != m.From {
		return fmt.Sprintf("%s moves from %s to %s: %s", m.Task, m.From, m.To, m.On)
	}
	return ""
}

func plannedOnce(r record, f fsm.EffectPlanned) string {
	if slices.Contains(r.c.planned, f.Effect.ID) {
		return f.Effect.ID + " is planned a second time"
	}
	return ""
}

func decidesAlike(d decision) string {
	if d.twin == nil {
		return ""
	}
	f, e := d.twin.Step(fsm.Event{At: d.at, Body: d.body})
	if a, b := decisionSum(d.facts, d.effects), decisionSum(f, e); a != b {
		return fmt.Sprintf("%T: first decision\n%v\n%v\nsecond decision\n%v\n%v", d.body, d.facts, d.effects, f, e)
	}
	return ""
}

// afterSuccess reports whether an attempt follows an agent's success and therefore does not need a verdict.
func afterSuccess(n fsm.Next) bool { return n.Validate && n.Reason == "" }

// ofTheWork reports whether the failure is in the work, in which case an agent must fix it.
func ofTheWork(r recovery.Reason) bool {
	about, _ := recovery.Describe(r)
	return about.Cause == recovery.Agent
}

func leavesValidation(r record, f fsm.AttemptBegan) string {
	clean, c := r.p.project(f.Task).CleanValidation, r.c
	switch {
	case f.LeavesValidation != (clean && !f.Next.Validate):
		return fmt.Sprintf("attempt %d of %s leaves its validation to another attempt: %t",
			f.N, f.Task, f.LeavesValidation)
	case !f.Next.Validate || c == nil:
	case !clean:
		return fmt.Sprintf("attempt %d of %s only validates, although clean validation is off", f.N, f.Task)
	case afterSuccess(f.Next) && (c.validates || c.outcome != fsm.OutcomeOK || f.Next.Charges != ""):
		return fmt.Sprintf("attempt %d of %s validates, but no agent has succeeded", f.N, f.Task)
	case !afterSuccess(f.Next) && !again(c.last.Row) && ofTheWork(f.Next.Reason):
		return fmt.Sprintf("attempt %d of %s validates again, although no agent has fixed %s",
			f.N, f.Task, f.Next.Reason)
	}
	return ""
}

func handsInValidated(r record, f fsm.EffectPlanned) string {
	clean := r.p.project(f.Effect.Task).CleanValidation
	if o := f.Effect.Start; o != nil && o.LeavesValidation != (clean && !o.Validate) {
		return fmt.Sprintf("%s leaves its validation to another attempt: %t", f.Effect.ID, o.LeavesValidation)
	}
	if c := r.c; f.Effect.Kind == fsm.DoDeliver && clean && c != nil &&
		(!c.validates || c.outcome != fsm.OutcomeOK || !f.Effect.Deliver.Validated) {
		return fmt.Sprintf("attempt %d of %s begins delivery without a clean validation", c.attempt, c.key)
	}
	return ""
}

func deliversValidated(r record, f fsm.WorkDelivered) string {
	if r.p.project(f.Task).CleanValidation && (!r.c.validates || f.Delivery.Changed) {
		return fmt.Sprintf("attempt %d of %s is delivered without a clean validation", r.c.attempt, r.c.key)
	}
	return ""
}

// handsInTheValidated checks that a delivery is restricted to validated work.
func handsInTheValidated(h *history, _ *process, e fsm.Effect) string {
	if e.Kind == fsm.DoDeliver && h.w.directors.set.in(e.Task.Repo()).cfg.CleanValidation && !e.Deliver.Validated {
		return e.ID + " delivers unvalidated work"
	}
	return ""
}

// shown checks published work. A validation-only container must have received the same work and reported success.
func (h *history) shown(i *issue, e fsm.Effect) {
	if !h.w.directors.set.in(e.Task.Repo()).cfg.CleanValidation || i.delivered == e.Worker {
		return
	}
	well := h.w.hub.losses != nil && h.w.hub.losses.well[e.Worker] // the success report may be lost
	for _, r := range h.w.workers.reports {
		well = well || r.worker == e.Worker && r.body.OK && r.body.Final
	}
	if !well || i.validatedBy != e.Worker || i.validated != i.work {
		h.w.fail(cleanlyValidated, "%s publishes work %d, but work %d was validated by %q (success: %t)",
			e.ID, i.work, i.validated,
			i.validatedBy, well)
	}
}
