package fsmtest

import (
	"slices"

	"retake/internal/fsm"
)

// node is a state of a small world.
type node struct {
	w        *world
	messages []message
	left     smallFaults // faults that can still happen
}

// message is a message on its way to a director.
type message struct {
	hello  bool
	worker string
}

// newSmall returns the first state of a small world.
func newSmall(s Small) *node {
	w := assemble(newChoices(1))
	w.faultsStopped, w.explored, w.steps = true, true, 1
	limits := budgets[0]
	limits.MaxRetries = 2
	w.directors.set = newSettings(s.Issues, 0, "director", limits)
	cfg := &w.directors.set.cfg
	cfg.CleanValidation, cfg.FixRounds = s.Clean, 2
	w.hub.withPulls = s.Faults[reviews] > 0
	if w.runtime.inCluster = s.Cluster; s.Cluster {
		cfg.PendingTimeout, cfg.CheckoutTravels = pendingTimeout, !s.Mounts
	}
	w.directors.history = newHistory(w)
	for _, key := range []fsm.IssueKey{"o/x#7", "o/y#7"}[:s.Issues] {
		w.hub.add(&issue{key: key, open: true, labels: taskLabel})
	}
	n := &node{w: w, left: s.Faults}
	n.boot()
	return n
}

// boot starts a leader on the journal.
func (n *node) boot() {
	w, d := n.w, n.w.directors
	p := d.newProcess()
	if p == nil {
		return
	}
	d.lead = p
	d.history.booted(p)
	n.tell(fsm.Booted{RunID: "r"})
	n.tell(w.runtime.list(p))
	for _, r := range w.hub.repos {
		if n.left[words] > 0 && p.m.Cursor(fsm.CommentsOf(r)) == "" {
			seen, _ := w.shell.commentsSeen(p, r)
			n.tell(seen)
		}
	}
}

// offer acts as the director's shell: it offers an event to the driver and takes the output.
func (n *node) offer(p *process, body fsm.EventBody, tok fsm.Token) {
	if !p.dead && n.w.bad == nil && n.w.directors.step(p, body, tok, nil) {
		n.flush(p)
	}
}

func (n *node) flush(p *process) {
	n.w.directors.takeReady(p, func(t token) {
		report := n.w.workers.reports[t.id-1]
		n.w.directors.history.acked(report)
		report.acked = true
	}, func(e fsm.Effect) {
		if e.Kind.Durable() {
			p.flight = append(p.flight, &flight{effect: e})
			return
		}
		switch e.Kind { // These happen immediately. All other soft effects are lost.
		case fsm.DoRemove:
			n.w.runtime.shutOut(e.Worker)
		case fsm.DoWelcome, fsm.DoFence, fsm.DoRefuse:
			n.w.workers.control(e)
		}
	}, func(b *fsm.Batch) { p.batch = b })
}

// land appends the current batch. If the journal refuses the append, the director learns that it was replaced.
func (n *node) land(p *process) {
	d, b := n.w.directors, p.batch
	p.batch = nil
	seq, err := d.journal.append(b)
	if err != nil {
		p.d.Stop()
		p.dead = true
		d.again()
		if p == d.stale {
			d.stale = nil
		} else {
			n.boot()
		}
		return
	}
	n.w.tell("    journal %d: %d records of p%d", seq, len(b.Records), p.id)
	d.history.appended(p, b.Records)
	p.durable += len(b.Records)
	p.d.Appended(seq)
	n.flush(p)
}

// pair returns the leader and the stale director.
func (w *directors) pair() [2]*process { return [2]*process{w.lead, w.stale} }

// again lets the stream redeliver unacknowledged reports.
func (w *directors) again() {
	for _, r := range w.workers.reports {
		r.waits = false
	}
}

// choices lists the possible next steps.
func (n *node) choices(out []step) []step {
	w, d := n.w, n.w.directors
	for i, p := range d.pair() {
		if p != nil && !p.dead {
			out = n.ofDirector(out, p, uint8(i))
		}
	}
	if n.left[drops] > 0 {
		for j := range n.messages {
			out = append(out, step{isLost, uint8(j), 0})
		}
	}
	for j, b := range w.runtime.containers {
		out = n.ofContainer(out, b, uint8(j))
	}
	for j, i := range w.hub.issues {
		if d.lead.m.Task(i.key) == nil && i.labels&taskLabel != 0 && i.nonce == "" {
			out = append(out, step{polled, uint8(j), 0})
		}
	}
	for j, i := range w.hub.issues {
		out = n.ofPeople(out, i, uint8(j))
	}
	if n.listTells() {
		out = append(out, step{listed, 0, 0})
	}
	if n.left[crash] > 0 {
		out = append(out, step{crashes, 0, 0})
		if d.lead.batch != nil {
			out = append(out, step{crashes, 1, 0})
		}
	}
	if n.left[stale] > 0 && d.stale == nil {
		out = append(out, step{replaces, 0, 0})
	}
	if next := d.lead.m.NextDeadline(); !next.IsZero() && (len(out) == 0 || n.left[silence] > 0) {
		out = append(out, step{passes, 0, 0})
	}
	return out
}

func (n *node) ofDirector(out []step, p *process, a uint8) []step {
	if p.batch != nil {
		out = append(out, step{lands, a, 0})
	}
	for j := range p.flight {
		out = append(out, step{isDone, a, uint8(j)})
		if n.left[failures] > 0 {
			out = append(out, step{fails, a, uint8(j)}, step{half, a, uint8(j)})
		}
	}
	for j := range n.messages {
		out = append(out, step{arrives, uint8(j), a})
		if n.left[doubles] > 0 {
			out = append(out, step{arrives2, uint8(j), a})
		}
	}
	for j, r := range n.w.workers.reports {
		if !r.acked && !r.waits {
			out = append(out, step{isRead, uint8(j), a})
		}
	}
	return out
}

func (n *node) ofContainer(out []step, b *container, j uint8) []step {
	if b.pending {
		out = append(out, step{isPlaced, j, 0})
	}
	if b.running && !b.lost && n.left[lost] > 0 {
		out = append(out, step{isCutOff, j, 0})
	}
	if b.lost && n.left[back] > 0 {
		out = append(out, step{isBack, j, 0})
	}
	if !b.alive() {
		return out
	}
	switch {
	case !b.welcomed && b.patience > 0:
		out = append(out, step{says, j, 0})
	case b.welcomed && b.sent == 0:
		out = append(out, step{succeeds, j, 0})
		if n.left[bad] > 0 {
			out = append(out, step{goesWrong, j, 0})
		}
	}
	if n.left[deaths] > 0 {
		out = append(out, step{dies, j, 0})
	}
	return out
}

// ofPeople lists the actions that people can take on an issue, and the reads that show them to the leader.
func (n *node) ofPeople(out []step, i *issue, j uint8) []step {
	x := i.pull
	if x != nil && x.state == "open" && n.left[reviews] > 0 {
		for kind := range smallReviews {
			out = append(out, step{isReviewed, j, uint8(kind)})
		}
	}
	if n.left[words] > 0 {
		for kind := range smallWords {
			out = append(out, step{speaks, j, uint8(kind)})
		}
	}
	t := n.w.directors.lead.m.Task(i.key)
	if t != nil && x != nil && (t.State == fsm.InReview && x.news(t.Reviewed) ||
		waitsForPeople(t) && x.state != "open") {
		out = append(out, step{looked, j, 0})
	}
	if n.unheard() && canHear(t) {
		out = append(out, step{listens, j, 0})
	}
	return out
}

// unheard reports whether the leader still has to decide on a command.
func (n *node) unheard() bool {
	return slices.ContainsFunc(n.w.hub.comments, func(c *comment) bool {
		_, taken := n.w.directors.history.taken[c.said.CommandRef]
		return !taken && n.w.directors.lead.told&(1<<c.said.Comment) == 0
	})
}

// news reports whether the pull request has a finding that has not led to an attempt yet.
func (p *pull) news(r fsm.Reviewed) bool {
	return p.state != "open" || len(p.changes) > 0 && p.changes[len(p.changes)-1].ID > r.Change ||
		p.failing && r.Checks != p.commit()
}

func waitsForPeople(t *fsm.Task) bool {
	return t.Work.PullRequest > 0 && (t.State == fsm.InReview || t.State == fsm.Backoff || t.State == fsm.Parked ||
		t.State == fsm.Blocked)
}

// canHear reports whether the leader can decide on a command. It cannot while an effect is changing the issue.
func canHear(t *fsm.Task) bool {
	switch {
	case t == nil:
		return true
	case t.State == fsm.Blocked || t.State == fsm.Parked:
		return len(t.Outbox) == 0
	}
	return t.State == fsm.Queued || t.State == fsm.Backoff || t.State == fsm.InReview || t.State.Info().Live
}

// listTells reports whether the runtime's list differs from the list that the leader expects.
func (n *node) listTells() bool {
	lead := n.w.directors.lead
	for _, b := range n.w.runtime.containers {
		t, current := lead.m.Worker(b.attempt)
		switch {
		case !b.listed, b.lost && b.revoked: // A lost container that was shut out may remain.
		case !current, !b.running && !b.pending && (!t.UpAt.IsZero() || t.Waits != nil) && t.State != fsm.Stopping,
			t.Waits != nil && (b.running || b.waits != t.Waits.For):
			return true
		}
	}
	return slices.ContainsFunc(lead.m.Tasks(), func(t *fsm.Task) bool {
		s := t.State
		return (!t.UpAt.IsZero() || t.Waits != nil) && (s == fsm.Starting || s == fsm.Running || s == fsm.Suspect) &&
			n.w.runtime.container(t.AttemptID()) == nil
	})
}

// over describes the error in a state without further steps, or returns "".
func (n *node) over() string {
	if text := n.w.atRest(); text != "" {
		return text
	}
	return labelsAgree(n.w.directors.history, n.w.directors.lead)
}
