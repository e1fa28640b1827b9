package fsmtest

import "retake/internal/fsm"

// newSmall is the first state.
func newSmall(s Small) *node {
	w := &world{
		faultsStopped: true, explored: true, maxWorkers: s.Workers, maxRetries: s.Retries, limits: budgets[0],
		steps: 1,
	}
	w.choices = newChoices(1)
	w.limits.MaxRetries = s.Retries
	w.cfg = machineConfig(s.Workers, 0, "director", w.limits)
	w.cfg.CleanValidation, w.cfg.FixRounds = s.Clean, 2
	w.withPulls = s.Reviews > 0
	if w.inCluster = s.Cluster; s.Cluster {
		w.cfg.PendingTimeout, w.cfg.CheckoutTravels = pendingTimeout, !s.Mounts
	}
	w.history = newHistory(w)
	keys := []fsm.IssueKey{"o/x#7", "o/y#7"}
	for i := range s.Issues {
		w.add(&issue{key: keys[i], open: true, labels: taskLabel})
	}
	n := &node{w: w, left: faultsLeft{
		s.Drops, s.Doubles, s.Failures, s.Deaths, s.Bad, s.Crashes, s.Stale, s.Silence,
		s.Reviews, s.Words, s.Lost, s.Back,
	}}
	n.boot()
	return n
}

// boot starts a leader on the journal.
func (n *node) boot() {
	w := n.w
	w.born++
	p := &process{id: w.born, cfg: w.cfg, began: w.settings()}
	p.m = fsm.New(p.cfg)
	if err := w.journal.load(p.m); err != nil {
		w.fail(replaySame, "%v", err)
		return
	}
	p.d = fsm.NewDriver(p.m, w.journal.last, "p")
	omitData(p.d)
	w.lead = p
	w.history.booted(p)
	n.offer(p, fsm.Booted{RunID: "r"}, 0)
	n.offer(p, w.list(p), 0)
	for _, r := range w.repos {
		if n.left.words > 0 && p.m.Cursor(fsm.CommentsOf(r)) == "" {
			seen, _ := w.commentsSeen(p, r)
			n.offer(p, seen, 0)
		}
	}
}

// offer is what a shell does: it tells the driver and takes what is ready.
func (n *node) offer(p *process, body fsm.EventBody, tok fsm.Token) {
	w := n.w
	if p.dead || w.bad != nil {
		return
	}
	at := w.wall(p)
	w.history.stepping(p, at, body)
	if err := p.d.Offer(fsm.Event{At: at, Body: body}, tok); err != nil {
		w.fail("DriverTakesEvents", "%T: %v", body, err)
		return
	}
	facts, effects := decided(p.m)
	if w.say != nil {
		w.tell("p%d ← %s", p.id, eventLine(body))
		for _, f := range facts {
			w.tell("    %s", factLine(f))
		}
	}
	if len(facts) > 0 {
		p.decided++
	}
	if tok != 0 {
		p.tokens = append(p.tokens, token{tok, p.decided, nil})
	}
	for _, e := range effects {
		p.waiting = append(p.waiting, pendingEffect{e, p.decided})
	}
	w.history.stepped(p, at, body, facts, effects)
	n.flush(p)
}

func (n *node) flush(p *process) {
	r := p.d.Ready()
	w := n.w
	for _, a := range r.Acks {
		if t := p.tokens[0]; t.id != a || t.need > p.durable {
			w.fail(ackAfterFact, "token %d was handed out after %d records, it waits for %d", a, p.durable, t.need)
		}
		p.tokens = p.tokens[1:]
		report := w.reports[a-1]
		w.history.acked(p, report)
		report.acked = true
	}
	for _, e := range r.Effects {
		if t := p.waiting[0]; t.effect.ID != e.ID || t.need > p.durable {
			w.fail(effectAfterFact, "%s was handed out after %d records, it waits for %d", e.ID, p.durable, t.need)
		}
		p.waiting = p.waiting[1:]
		w.history.handed(p, e)
		if e.Kind.Durable() {
			p.flight = append(p.flight, &flight{effect: e})
			continue
		}
		n.soft(e)
	}
	if r.Batch != nil {
		p.batch = r.Batch
	}
}

// soft effects happen at once, or are lost where a message may be.
func (n *node) soft(e fsm.Effect) {
	switch e.Kind {
	case fsm.DoRemove:
		n.w.shutOut(e.Worker)
	case fsm.DoWelcome, fsm.DoFence, fsm.DoRefuse:
		n.w.control(e)
	}
}

// land appends what is under way. A refused append is how a stale director learns that it is one.
func (n *node) land(p *process) {
	w, b := n.w, p.batch
	p.batch = nil
	seq, err := w.journal.append(b)
	if err != nil {
		p.d.Stop()
		p.dead = true
		w.again()
		if p == w.stale {
			w.stale = nil
		} else {
			n.boot()
		}
		return
	}
	w.tell("    journal %d: %d records of p%d", seq, len(b.Records), p.id)
	w.history.appended(p, b.Records)
	n.settled(p, b, seq)
}

func (n *node) settled(p *process, b *fsm.Batch, seq uint64) {
	p.durable += len(b.Records)
	p.d.Appended(seq)
	n.flush(p)
}

// directors are the leader and the stale one.
func (w *world) directors() [2]*process { return [2]*process{w.lead, w.stale} }

// choices lists what can happen next.
func (n *node) choices(out []step) []step {
	w, l := n.w, n.left
	for i, p := range w.directors() {
		if p == nil || p.dead {
			continue
		}
		a := uint8(i)
		if p.batch != nil {
			out = append(out, step{lands, a, 0})
		}
		for j := range p.flight {
			out = append(out, step{isDone, a, uint8(j)})
			if l.failures > 0 {
				out = append(out, step{fails, a, uint8(j)}, step{half, a, uint8(j)})
			}
		}
		for j := range n.messages {
			out = append(out, step{arrives, uint8(j), a})
			if l.doubles > 0 {
				out = append(out, step{arrives2, uint8(j), a})
			}
		}
		for j, r := range w.reports {
			if !r.acked && !r.waits {
				out = append(out, step{isRead, uint8(j), a})
			}
		}
	}
	for j := range n.messages {
		if l.drops > 0 {
			out = append(out, step{isLost, uint8(j), 0})
		}
	}
	for j, b := range w.containers {
		out = n.moves(out, b, uint8(j))
		if !b.alive() {
			continue
		}
		switch {
		case !b.welcomed && b.patience > 0:
			out = append(out, step{says, uint8(j), 0})
		case b.welcomed && b.sent == 0:
			out = append(out, step{succeeds, uint8(j), 0})
			if l.bad > 0 {
				out = append(out, step{goesWrong, uint8(j), 0})
			}
		}
		if l.deaths > 0 {
			out = append(out, step{dies, uint8(j), 0})
		}
	}
	for j, i := range w.issues {
		if w.lead.m.Task(i.key) == nil && i.labels&taskLabel != 0 && i.nonce == "" {
			out = append(out, step{polled, uint8(j), 0})
		}
	}
	out = n.people(out)
	if n.listTells() {
		out = append(out, step{listed, 0, 0})
	}
	if l.crashes > 0 {
		out = append(out, step{crashes, 0, 0})
		if w.lead.batch != nil {
			out = append(out, step{crashes, 1, 0})
		}
	}
	if l.stale > 0 && w.stale == nil {
		out = append(out, step{replaces, 0, 0})
	}
	if next := w.lead.m.NextDeadline(); !next.IsZero() && (len(out) == 0 || l.silence > 0) {
		out = append(out, step{passes, 0, 0})
	}
	return out
}

// listTells reports whether the runtime's list differs from what the leader expects.
func (n *node) listTells() bool {
	for _, b := range n.w.containers {
		t, current := n.w.lead.m.Worker(b.attempt)
		switch {
		case !b.listed, b.lost && b.revoked: // that one is there for good
		case !current, !b.running && !b.pending && (!t.UpAt.IsZero() || t.Waits != nil) && t.State != fsm.Stopping:
			return true
		case current && t.Waits != nil && (b.running || b.waits != t.Waits.For):
			return true
		}
	}
	for _, t := range n.w.lead.m.Tasks() {
		if s := t.State; (!t.UpAt.IsZero() || t.Waits != nil) && (s == fsm.Starting || s == fsm.Running ||
			s == fsm.Suspect) && n.w.container(t.AttemptID()) == nil {
			return true
		}
	}
	return false
}

// take makes one step.
func (n *node) take(s step) {
	w := n.w
	switch s.kind {
	case lands:
		n.land(w.directors()[s.a])
	case isDone, fails, half:
		n.end(w.directors()[s.a], int(s.b), s.kind)
	case says:
		b := w.containers[s.a]
		b.patience--
		n.messages = append(n.messages, message{true, b.attempt})
	case succeeds, goesWrong:
		b := w.containers[s.a]
		b.sent++
		r := fsm.Report{Ref: fsm.ReportRef{ID: "r1"}, OK: s.kind == succeeds, Final: true, Stage: "CODE"}
		if s.kind == goesWrong {
			n.left.bad--
			r.Evidence = retryableFailure
		}
		if b.revoked {
			n.offer(w.lead, fsm.ReportReceived{Worker: b.attempt, Report: r}, 0)
			break
		}
		w.publish(b.attempt, r)
	case isPlaced, isCutOff, isBack:
		n.move(s)
	case dies:
		n.left.deaths--
		b := w.containers[s.a]
		b.running, b.code = false, 1
	case arrives, arrives2:
		m := n.messages[s.a]
		if s.kind == arrives {
			n.messages = append(n.messages[:s.a:s.a], n.messages[s.a+1:]...)
		} else {
			n.left.doubles--
		}
		n.offer(w.directors()[s.b], fsm.Hello{Worker: m.worker}, 0)
	case isLost:
		n.left.drops--
		n.messages = append(n.messages[:s.a:s.a], n.messages[s.a+1:]...)
	case isRead:
		r := w.reports[s.a]
		r.waits = true
		n.offer(w.directors()[s.b], fsm.ReportReceived{Worker: r.worker, Report: r.body}, fsm.Token(s.a)+1)
	case polled:
		n.offer(w.lead, w.view(w.lead, w.issues[s.a]), 0)
	case listed:
		n.offer(w.lead, w.list(w.lead), 0)
	case isReviewed, speaks, looked, listens:
		n.act(s)
	case passes:
		n.pass()
	case crashes:
		n.left.crashes--
		p := w.lead
		if s.a == 1 {
			if _, err := w.journal.append(p.batch); err == nil {
				w.history.appended(p, p.batch.Records)
			}
		}
		p.dead = true
		w.again()
		w.tell("p%d crashes", p.id)
		n.boot()
	case replaces:
		n.left.stale--
		w.stale = w.lead
		w.tell("p%d is replaced", w.stale.id)
		n.boot()
	}
}

// again: what was not acknowledged is delivered again.
func (w *world) again() {
	for _, r := range w.reports {
		r.waits = false
	}
}

// retryableFailure is a failure that another attempt may heal.
var retryableFailure = failureEvidence[3]

func (n *node) end(p *process, j int, how happening) {
	w, e := n.w, p.flight[j].effect
	p.flight = append(p.flight[:j:j], p.flight[j+1:]...)
	out := fsm.EffectEnded{}
	if how != fails {
		out = w.carryOut(p, e)
	}
	if how != isDone {
		n.left.failures--
		out = fsm.EffectEnded{Failure: w.failure(e.Kind)}
	}
	out.Task, out.Effect = e.Task, e.ID
	n.offer(p, out, 0)
}

// pass lets time go on to the leader's next deadline.
func (n *node) pass() {
	w := n.w
	next := w.lead.m.NextDeadline()
	if len(n.choicesNow()) > 0 {
		n.left.silence--
	}
	if w.stale != nil { // its lease has run out by then
		w.stale.dead, w.stale = true, nil
		w.again()
	}
	w.now = max(w.now, int64(next.Sub(epoch)))
	n.offer(w.lead, fsm.Tick{}, 0)
	if after := w.lead.m.NextDeadline(); !after.IsZero() && !after.After(w.wall(w.lead)) {
		w.fail(timerMeansWork, "the deadline was offered, and is there still")
	}
	for _, b := range w.containers { // a worker that was not answered says hello again
		if !b.welcomed && b.patience == 0 {
			b.patience = 1
		}
	}
}

// choicesNow are the choices that need no time.
func (n *node) choicesNow() []step {
	all := n.choices(nil)
	for i, s := range all {
		if s.kind == passes {
			return append(all[:i:i], all[i+1:]...)
		}
	}
	return all
}

// over says what is wrong with a state in which nothing can happen any more.
func (n *node) over() string {
	if text := n.w.atRest(); text != "" {
		return text
	}
	return labelsAgree(n.w.history, n.w.lead)
}
