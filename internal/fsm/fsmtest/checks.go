package fsmtest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

func runsAlone(h *history, p *process, e fsm.Effect) string {
	if e.Kind != fsm.DoStart || p != h.w.lead {
		return ""
	}
	for _, b := range h.w.containers {
		if b.issue == e.Task && b.attempt != e.Worker && b.canCount() {
			return fmt.Sprintf("%s starts beside the container of %s", e.Worker, b.attempt)
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
		return fmt.Sprintf("p%d welcomes %s, whose attempt is over", p.id, e.Worker)
	}
	if c.state == fsm.Starting {
		return fmt.Sprintf("%s is welcomed, and the journal has it Starting", e.Worker)
	}
	return ""
}

func fenced(h *history, p *process, _ time.Time, body fsm.EventBody, facts []fsm.Fact, _ []fsm.Effect) string {
	if len(facts) == 0 || p != h.w.lead {
		return ""
	}
	all := speakers(body)
	for _, worker := range all {
		c, n := h.of(worker)
		// it may have moved the task itself
		current := func(other string) bool { o, k := h.of(other); return o == c && k >= c.attempt }
		if c == nil || n >= c.attempt || slices.ContainsFunc(all, current) {
			continue
		}
		if wrong := decidesForOthers(c, worker, facts); wrong != "" {
			return wrong
		}
	}
	return ""
}

// decidesForOthers looks for what was decided about a claim on the word of a worker whose attempt is over.
func decidesForOthers(c *claim, worker string, facts []fsm.Fact) string {
	for _, f := range facts {
		switch f := f.(type) {
		case fsm.ReportAccepted:
			return fmt.Sprintf("%s says something, and it counts for %s", worker, f.Worker)
		case fsm.WorkerAnswered:
			if f.Welcome {
				return fmt.Sprintf("%s says hello, and %s is welcomed", worker, f.Worker)
			}
		case fsm.Moved:
			if f.Task == c.key && (f.On == fsm.OnHello || f.On == fsm.OnSeenAgain || f.On == fsm.OnReport ||
				f.On == fsm.OnIncompatible) {
				return fmt.Sprintf("%s says something, and attempt %d moves: %s", worker, f.Attempt, f.On)
			}
		}
	}
	return ""
}

// speakers are the workers that an event comes from.
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

// signsIn are the signs of life in an event.
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
	if e.Kind.Durable() && p == h.w.lead && h.open[e.ID] == 0 {
		return e.ID + " is not planned in the journal"
	}
	return ""
}

func reportKept(h *history, _ *process, r *report) string {
	const most = 15 // and one place is kept for the first final report
	c, n := h.of(r.worker)
	if c == nil || c.attempt != n || !c.state.Info().Live || r.body.Exit || c.mine >= most {
		return ""
	}
	if !slices.Contains(c.accepted, r.worker+"/"+r.body.Ref.ID) {
		return fmt.Sprintf("%s of %s was acknowledged and is not in the journal", r.body.Ref.ID, r.worker)
	}
	return ""
}

func decidedOnce(h *history, _ *process, _ fsm.Record, f fsm.Fact) string {
	switch f := f.(type) {
	case fsm.ReportAccepted:
		if c := h.claim(f.Task); c != nil && slices.Contains(c.accepted, f.Worker+"/"+f.Ref.ID) {
			return fmt.Sprintf("%s of %s is accepted twice", f.Ref.ID, f.Worker)
		}
	case fsm.VerdictMade:
		if c := h.claim(f.Task); c != nil && ofAttempt(f) && c.verdict == f.Attempt {
			return fmt.Sprintf("a second verdict on attempt %d of %s", f.Attempt, f.Task)
		}
	}
	return ""
}

func successDelivered(h *history, _ *process, _ fsm.Record, f fsm.Fact) string {
	m, ok := f.(fsm.Moved)
	if !ok || m.From != fsm.Stopping {
		return ""
	}
	switch c := h.claim(m.Task); {
	case c == nil:
	case c.outcome == fsm.OutcomeOK && h.w.cfg.CleanValidation && !c.validates:
		if m.On != fsm.OnValidate {
			return fmt.Sprintf("attempt %d of %s ended well, is to be validated, and went to %s", c.attempt, c.key,
				m.To)
		}
	case c.outcome == fsm.OutcomeOK && m.To != fsm.Delivering && !c.fenced[c.attempt],
		c.outcome == fsm.OutcomeWithdrawn && m.To != fsm.Released,
		c.outcome != fsm.OutcomeOK && m.To == fsm.Delivering:
		return fmt.Sprintf("attempt %d of %s ended %q and went to %s", c.attempt, c.key, c.outcome, m.To)
	}
	return ""
}

// judgedByItsReport: of the final reports the first decides, and the director's own of an exit is one if it came first.
func judgedByItsReport(_ *history, p *process, _ time.Time, body fsm.EventBody, facts []fsm.Fact,
	_ []fsm.Effect,
) string {
	e, ok := body.(fsm.EffectEnded)
	if !ok || e.Stop == nil || !slices.ContainsFunc(facts,
		func(f fsm.Fact) bool { m, ok := f.(fsm.Moved); return ok && m.Task == e.Task && m.From == fsm.Stopping }) {
		return ""
	}
	first := slices.IndexFunc(e.Stop.Reports, func(r fsm.Report) bool { return r.Final })
	t := p.m.Task(e.Task)
	if first < 0 || e.Stop.Reports[first].Exit || t == nil || t.Ending.Outcome != fsm.OutcomeFailed {
		return ""
	}
	if t.Ending.Report == nil || t.Ending.Report.ID == t.AttemptID()+"/exit" {
		return fmt.Sprintf("%s: %s reported %s, and its end is judged without it: %q", e.Effect, t.AttemptID(),
			e.Stop.Reports[first].Ref.ID, t.Ending.Known)
	}
	return ""
}

// closedIsReleased: the only delivery with a word on the claim is one that found the issue closed.
func closedIsReleased(_ *history, _ *process, _ time.Time, body fsm.EventBody, facts []fsm.Fact,
	_ []fsm.Effect,
) string {
	e, ok := body.(fsm.EffectEnded)
	// no facts: it is told again
	if !ok || e.Claim == nil || e.Claim.Ours || !strings.HasSuffix(e.Effect, "/"+string(fsm.DoDeliver)) ||
		len(facts) == 0 {
		return ""
	}
	for _, f := range facts {
		if m, ok := f.(fsm.Moved); ok && m.Task == e.Task && m.To == fsm.Released {
			return ""
		}
	}
	return fmt.Sprintf("%s found the issue closed, and %s was not released", e.Effect, e.Task)
}

func slotsHeld(h *history, _ *process, _ fsm.Record, f fsm.Fact) string {
	switch f.(type) {
	case fsm.SettingsChanged, fsm.RunBegan: // there may be fewer from now on: who has a slot keeps it
		h.crowded = max(h.crowded, h.slots(""))
		return ""
	}
	if e, ok := f.(fsm.EffectPlanned); ok && (e.Effect.Kind == fsm.DoRecheck || e.Effect.Kind == fsm.DoClaim) {
		if c := h.claim(e.Effect.Task); c != nil && c.state == fsm.Backoff && h.slots(c.key) > h.set.cfg.MaxWorkers {
			return fmt.Sprintf("%s is read again for a slot, and there are %d", c.key, h.set.cfg.MaxWorkers)
		}
		return ""
	}
	switch m, ok := f.(fsm.Moved); {
	case !ok || !m.To.Info().Slot:
		return ""
	default:
		n, most := h.slots(m.Task), h.set.cfg.MaxWorkers
		if n <= most {
			h.crowded = 0
		}
		if m.From != fsm.Queued {
			most = max(most, h.crowded)
		}
		if n > most {
			return fmt.Sprintf("%d tasks hold a slot, there are %d", n, most)
		}
		return ""
	}
}

// slots is how many tasks hold one, this one included.
func (h *history) slots(with fsm.IssueKey) (n int) {
	for _, c := range h.claims {
		if c.key == with || c.state.Info().Slot || c.rereads() {
			n++
		}
	}
	return n
}

// rereads reports whether the issue is read again for the next attempt.
func (c *claim) rereads() bool {
	return c.state == fsm.Backoff && slices.ContainsFunc(c.outbox,
		func(id string) bool { return strings.Contains(id, "/claim") || strings.Contains(id, "/recheck") })
}

// hostOpen: a task takes a slot when it is claimed, or when its issue is looked at once more for the next attempt.
func hostOpen(h *history, _ *process, r fsm.Record, f fsm.Fact) string {
	if !h.limits.until[recovery.Host].After(r.At) {
		return ""
	}
	switch f := f.(type) {
	case fsm.Moved:
		if f.On == fsm.OnDispatch {
			return fmt.Sprintf("%s is dispatched, and the machine is closed until %s", f.Task,
				h.limits.until[recovery.Host])
		}
	case fsm.EffectPlanned:
		if f.Effect.Kind == fsm.DoRecheck {
			return fmt.Sprintf("%s is planned, and the machine is closed until %s", f.Effect.ID,
				h.limits.until[recovery.Host])
		}
	}
	return ""
}

func githubOpen(h *history, p *process, _ time.Time, _ fsm.EventBody, _ []fsm.Fact, effects []fsm.Effect) string {
	for _, e := range effects {
		if githubKinds[e.Kind] && h.w.closed(p) {
			return e.ID + " is decided while GitHub is closed"
		}
	}
	return ""
}

func asksOnce(h *history, _ *process, _ fsm.Record, f fsm.Fact) string {
	switch f := f.(type) {
	case fsm.EffectPlanned:
		if c := h.claim(f.Effect.Task); c != nil && f.Effect.Kind == fsm.DoEscalate && c.asked != "" {
			return fmt.Sprintf("%s is planned, %s is open", f.Effect.ID, c.asked)
		}
	case fsm.Moved:
		if c := h.claim(f.Task); c != nil && f.To == fsm.Blocked && c.asked == "" {
			return fmt.Sprintf("%s is blocked, and nobody was asked", f.Task)
		}
	}
	return ""
}

func beginsAfterStop(h *history, _ *process, _ fsm.Record, f fsm.Fact) string {
	b, ok := f.(fsm.AttemptBegan)
	if !ok {
		return ""
	}
	c := h.claim(b.Task)
	switch {
	case c == nil:
		return "an attempt of no claim: " + string(b.Task)
	case !c.confirmed:
		return fmt.Sprintf("attempt %d of %s begins, and the stop of %d is not confirmed", b.N, b.Task, c.attempt)
	case b.N != c.attempt+1:
		return fmt.Sprintf("attempt %d of %s follows %d", b.N, b.Task, c.attempt)
	case c.attempt > 0:
		if x := h.w.container(fsm.AttemptID(c.nonce, c.attempt)); x != nil && x.running && x.canCount() {
			return fmt.Sprintf("attempt %d of %s begins, and the container of %d runs", b.N, b.Task, c.attempt)
		}
	}
	return ""
}

func inTheTable(h *history, _ *process, _ fsm.Record, f fsm.Fact) string {
	m, ok := f.(fsm.Moved)
	if !ok {
		return ""
	}
	if to, ok := m.From.After(m.On); !ok || to != m.To {
		return fmt.Sprintf("%s moves from %s to %s: %s", m.Task, m.From, m.To, m.On)
	}
	if c := h.claim(m.Task); c == nil || c.state != m.From {
		return fmt.Sprintf("%s moves from %s to %s: %s", m.Task, m.From, m.To, m.On)
	}
	return ""
}

func plannedOnce(h *history, _ *process, _ fsm.Record, f fsm.Fact) string {
	if p, ok := f.(fsm.EffectPlanned); ok {
		if c := h.claim(p.Effect.Task); c != nil && slices.Contains(c.planned, p.Effect.ID) {
			return p.Effect.ID + " is planned a second time"
		}
	}
	return ""
}

func oneUnderWay(_ *history, p *process, e fsm.Effect) string {
	if !e.Kind.Durable() {
		return ""
	}
	for _, f := range p.flight {
		if f.effect.Task == e.Task && !f.over {
			return e.ID + " is handed out beside " + f.effect.ID
		}
	}
	return ""
}

func deadlinePassed(h *history, _ *process, r fsm.Record, f fsm.Fact) string {
	m, ok := f.(fsm.Moved)
	if !ok || m.On != fsm.OnWatchdog && m.On != fsm.OnNoHello {
		return ""
	}
	c := h.claim(m.Task)
	if c == nil {
		return ""
	}
	due := c.watchdog
	if m.On == fsm.OnNoHello {
		due = c.helloBy
	}
	if m.Attempt != c.attempt || r.At.Before(due) {
		return fmt.Sprintf("attempt %d of %s: %s, %s before it was due", m.Attempt, m.Task, m.On, due.Sub(r.At))
	}
	return ""
}

func staleFairly(h *history, _ *process, r fsm.Record, f fsm.Fact) string {
	m, ok := f.(fsm.Moved)
	if !ok || m.On != fsm.OnStale {
		return ""
	}
	c := h.claim(m.Task)
	if c == nil {
		return ""
	}
	since := c.since
	for _, t := range []time.Time{c.until, h.closed} {
		if t.After(since) {
			since = t
		}
	}
	if waited := r.At.Sub(since); waited < h.set.cfg.ClaimStale {
		return fmt.Sprintf("%s went stale, it could have gone on for %s", m.Task, waited)
	}
	return ""
}

func silenceForgiven(h *history, p *process, _ time.Time, _ fsm.EventBody, facts []fsm.Fact, _ []fsm.Effect) string {
	for _, f := range facts {
		m, ok := f.(fsm.Moved)
		if !ok || m.On != fsm.OnSilent && m.On != fsm.OnStillSilent && m.On != fsm.OnNoHello {
			continue
		}
		s, now := p.soft, p.m.Now()
		if now.Before(s.grace) {
			return fmt.Sprintf("%s: %s, within the grace", m.Task, m.On)
		}
		if c := h.claim(m.Task); c != nil && m.On == fsm.OnSilent {
			if heard := s.heard[fsm.AttemptID(c.nonce, m.Attempt)]; now.Sub(heard) <= heartbeatTTL {
				return fmt.Sprintf("%s: %s, heard %s ago", m.Task, m.On, now.Sub(heard))
			}
		}
	}
	return ""
}

// silenceSeen: no step after the deadline came before the one that decides.
func silenceSeen(_ *history, p *process, _ time.Time, _ fsm.EventBody, facts []fsm.Fact, _ []fsm.Effect) string {
	for _, f := range facts {
		m, ok := f.(fsm.Moved)
		if !ok || m.On != fsm.OnSilent {
			continue
		}
		if t := p.m.Task(m.Task); t != nil {
			due := p.soft.heard[t.AttemptID()].Add(heartbeatTTL + time.Millisecond)
			if p.soft.grace.After(due) {
				due = p.soft.grace
			}
			if !p.soft.last.Before(due) {
				return fmt.Sprintf("%s: %s, which was due %s before the step before", m.Task, m.On,
					p.soft.last.Sub(due))
			}
		}
	}
	return ""
}

func twoWitnesses(h *history, p *process, _ time.Time, _ fsm.EventBody, facts []fsm.Fact, _ []fsm.Effect) string {
	for _, f := range facts {
		m, ok := f.(fsm.Moved)
		if !ok || m.On != fsm.OnStillSilent {
			continue
		}
		if c := h.claim(m.Task); c != nil && c.state == fsm.Suspect &&
			p.soft.listed[fsm.AttemptID(c.nonce, m.Attempt)].Before(c.since) {
			return fmt.Sprintf("%s is killed for silence, and the runtime was not heard", m.Task)
		}
	}
	return ""
}

// atOnce are the ends of workers that hear nothing. (Written down once more: the machine's are what is searched.)
var atOnce = []fsm.Trigger{fsm.OnStartFailed, fsm.OnNoHello, fsm.OnNotPlaced, fsm.OnStillSilent, fsm.OnContainerEnded}

// graceOfStop: who is ended for what it does shall do no more of that.
func graceOfStop(_ *history, p *process, _ time.Time, body fsm.EventBody, facts []fsm.Fact, _ []fsm.Effect) string {
	stops := map[fsm.IssueKey]fsm.Effect{}
	for _, f := range facts {
		if planned, ok := f.(fsm.EffectPlanned); ok && planned.Effect.Kind == fsm.DoStop {
			stops[planned.Effect.Task] = planned.Effect
		}
	}
	for _, f := range facts {
		m, ok := f.(fsm.Moved)
		if !ok || m.To != fsm.Stopping {
			continue
		}
		want := p.cfg.StopGrace
		if r, ok := body.(fsm.ReportReceived); slices.Contains(atOnce, m.On) || ok && m.On == fsm.OnReport &&
			r.Report.Evidence.Known != "" {
			want = 0
		}
		if got := stops[m.Task].Stop; got == nil || got.Grace != want {
			return fmt.Sprintf("%s is stopped (%s) by %+v, its grace is %s", m.Task, m.On, got, want)
		}
	}
	return ""
}

func humanUnblocks(_ *history, _ *process, _ time.Time, body fsm.EventBody, facts []fsm.Fact, _ []fsm.Effect) string {
	healed := map[string]bool{}
	for _, f := range facts {
		switch f := f.(type) {
		case fsm.IncidentChanged:
			healed[f.Incident.Key] = true
		case fsm.Moved:
			_, answered := body.(fsm.QuestionAnswered)
			_, said := body.(fsm.CommentsSeen)
			if f.From == fsm.Blocked && f.To == fsm.Backoff && !answered && !said &&
				(f.On != fsm.OnIncidentOver || len(healed) == 0) {
				return fmt.Sprintf("%s goes on after %T", f.Task, body)
			}
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
		return fmt.Sprintf("p%d finds %v, the journal has %v", p.id, has, wants)
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
	if p != h.w.lead || !p.d.Idle() {
		return ""
	}
	m := fsm.New(p.cfg)
	if err := h.w.journal.load(m); err != nil {
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
	return fmt.Sprintf("lived %x, read %x:\n%s\n%s", a, b, x, y)
}

func decidesAlike(h *history, _ *process, at time.Time, body fsm.EventBody, facts []fsm.Fact,
	effects []fsm.Effect,
) string {
	if h.twin == nil {
		return ""
	}
	f, e := h.twin.Step(fsm.Event{At: at, Body: body})
	if a, b := decisionSum(facts, effects), decisionSum(f, e); a != b {
		return fmt.Sprintf("%T decides\n%v\n%v\nand again\n%v\n%v", body, facts, effects, f, e)
	}
	return ""
}

func bounded(h *history, p *process) string {
	tasks := p.m.Tasks()
	if len(tasks) > len(h.w.issues) {
		return fmt.Sprintf("%d tasks, there are %d issues", len(tasks), len(h.w.issues))
	}
	for _, t := range tasks {
		if len(t.Reports) > 16 || len(t.History) > 5 || len(t.Hints) > 10 || len(t.Outbox) > 3 {
			return fmt.Sprintf("%s remembers %d reports, %d failures, %d hints, %d effects", t.Key, len(t.Reports),
				len(t.History), len(t.Hints), len(t.Outbox))
		}
	}
	if n := elements(p.m); n > baseElements+len(tasks)*taskElements {
		return fmt.Sprintf("%d list elements for %d tasks", n, len(tasks))
	}
	return ""
}
