package fsmtest

import (
	"fmt"
	"slices"

	"retake/internal/fsm"
)

// step is one event in a small world. The meaning of a and b depends on the kind.
type step struct {
	kind happening
	a, b uint8
}

type happening uint8

const (
	lands happening = iota
	isDone
	fails
	half
	says
	succeeds
	goesWrong
	dies
	arrives
	arrives2
	isLost
	isRead
	polled
	listed
	passes
	crashes
	replaces
	isReviewed
	speaks
	looked
	listens
	isPlaced
	isCutOff
	isBack
)

// happenings is the table of possible steps.
var happenings = [...]struct {
	name string
	do   func(n *node, s step)
}{
	// An append by the leader (a is 0) or by the replaced director (a is 1).
	lands: {"append lands", func(n *node, s step) { n.land(n.w.directors.pair()[s.a]) }},
	// The b-th running effect of a director.
	isDone: {"effect ends", (*node).end},
	fails:  {"effect fails", (*node).end},
	half:   {"effect succeeds but reports a failure", (*node).end},
	// The worker of the a-th container.
	says: {"worker says hello", func(n *node, s step) {
		b := n.w.runtime.containers[s.a]
		b.patience--
		n.messages = append(n.messages, message{true, b.attempt})
	}},
	succeeds:  {"worker succeeds", (*node).finish},
	goesWrong: {"worker fails", (*node).finish},
	dies: {"worker dies", func(n *node, s step) {
		b := n.w.runtime.containers[s.a]
		b.running, b.code = false, 1
	}},
	// The a-th message, received by the leader (b is 0) or the stale director.
	arrives: {"message arrives", func(n *node, s step) {
		m := n.lose(s.a)
		n.offer(n.w.directors.pair()[s.b], fsm.Hello{Worker: m.worker}, 0)
	}},
	arrives2: {"message arrives twice", func(n *node, s step) {
		n.offer(n.w.directors.pair()[s.b], fsm.Hello{Worker: n.messages[s.a].worker}, 0)
	}},
	isLost: {"message is lost", func(n *node, s step) { n.lose(s.a) }},
	// The a-th report, read by the leader or the stale director.
	isRead: {"report arrives", func(n *node, s step) {
		r := n.w.workers.reports[s.a]
		r.waits = true
		n.offer(n.w.directors.pair()[s.b], fsm.ReportReceived{Worker: r.worker, Report: r.body}, fsm.Token(s.a)+1)
	}},
	// The leader reads the a-th issue, the runtime's list, or the a-th issue's pull request or comments.
	polled: {"issue is seen", func(n *node, s step) {
		n.tell(n.w.hub.view(n.w.directors.lead, n.w.hub.issues[s.a]))
	}},
	listed: {"list is read", func(n *node, _ step) {
		p := n.w.directors.lead
		n.tell(n.w.runtime.list(p))
		for _, t := range p.m.Tasks() { // a probe is sent together with the request for the list
			if t.State == fsm.Suspect {
				n.tell(fsm.ProbeUnanswered{Worker: t.AttemptID(), SentAt: n.w.wall(p)})
			}
		}
	}},
	looked: {"pull request is read", func(n *node, s step) {
		n.tell(n.w.hub.pullSeen(n.w.directors.lead, n.w.hub.issues[s.a]))
	}},
	listens: {"comments are read", func(n *node, s step) { n.listen(n.w.hub.issues[s.a]) }},
	// Time passes until the next deadline.
	passes: {"time passes", func(n *node, _ step) { n.pass() }},
	// The current append lands (a is 1) or not.
	crashes: {"director crashes", func(n *node, s step) {
		p := n.w.directors.lead
		if s.a == 1 {
			if _, err := n.w.directors.journal.append(p.batch); err == nil {
				n.w.directors.history.appended(p, p.batch.Records)
			}
		}
		p.dead = true
		n.w.directors.again()
		n.w.tell("p%d crashes", p.id)
		n.boot()
	}},
	replaces: {"director is replaced", func(n *node, _ step) {
		n.w.directors.stale = n.w.directors.lead
		n.w.tell("p%d is replaced", n.w.directors.stale.id)
		n.boot()
	}},
	// The b-th review of the a-th issue's pull request, and the b-th command on the a-th issue.
	isReviewed: {"pull request is reviewed", func(n *node, s step) {
		smallReviews[s.b](n.w.hub, n.w.hub.issues[s.a].pull)
	}},
	speaks: {"somebody comments", func(n *node, s step) {
		n.w.hub.said++
		said := smallWords[s.b]
		said.Task, said.By, said.Comment = n.w.hub.issues[s.a].key, "octocat", int64(n.w.hub.said)
		// A time would make otherwise equal states differ.
		n.w.hub.comments = append(n.w.hub.comments, &comment{said: said})
	}},
	// The a-th container, and its node.
	isPlaced: {"container is placed", func(n *node, s step) {
		b := n.w.runtime.containers[s.a]
		b.pending, b.running = false, true
	}},
	isCutOff: {"node is lost", func(n *node, s step) { n.w.runtime.containers[s.a].lost = true }},
	isBack:   {"node is back", func(n *node, s step) { n.w.runtime.returns(n.w.runtime.containers[s.a]) }},
}

func (s step) String() string { return fmt.Sprintf("%s %d %d", happenings[s.kind].name, s.a, s.b) }

// smallReviews lists the possible changes to an open pull request.
var smallReviews = []func(w *hub, x *pull){
	func(w *hub, x *pull) {
		w.reviews++
		x.changes = append(x.changes, fsm.Change{ID: int64(w.reviews), Hint: fsm.Hint{From: "octocat", Text: "x"}})
	},
	func(_ *hub, x *pull) { x.failing = true },
	func(_ *hub, x *pull) { x.state = "merged" },
}

// smallWords lists the commands that people give.
var smallWords = []fsm.CommentView{
	{Command: fsm.CommandRetry},
	{Command: fsm.CommandSnooze, For: 1e9},
	{Command: fsm.CommandStop},
}

// costs maps each event to the kind of fault that it uses up.
var costs = map[happening]smallFault{
	fails: failures, half: failures, goesWrong: bad, dies: deaths, arrives2: doubles, isLost: drops, crashes: crash,
	replaces: stale, isReviewed: reviews, speaks: words, isCutOff: lost, isBack: back,
}

// take carries out one step, and counts the fault that it uses up.
func (n *node) take(s step) {
	if fault, ok := costs[s.kind]; ok {
		n.left[fault]--
	}
	happenings[s.kind].do(n, s)
}

// tell offers the leader an event.
func (n *node) tell(body fsm.EventBody) { n.offer(n.w.directors.lead, body, 0) }

// lose removes a message in transit.
func (n *node) lose(i uint8) message {
	m := n.messages[i]
	n.messages = append(n.messages[:i:i], n.messages[i+1:]...)
	return m
}

// finish ends a worker's run with a report.
func (n *node) finish(s step) {
	b := n.w.runtime.containers[s.a]
	b.sent++
	r := fsm.Report{Ref: fsm.ReportRef{ID: "r1"}, OK: s.kind == succeeds, Final: true, Stage: "CODE"}
	if !r.OK {
		r.Evidence = failureEvidence[3] // a failure that another attempt may fix
	}
	if b.revoked {
		n.tell(fsm.ReportReceived{Worker: b.attempt, Report: r})
		return
	}
	n.w.workers.publish(b.attempt, r)
}

// end ends a running effect of a director.
func (n *node) end(s step) {
	p := n.w.directors.pair()[s.a]
	e := p.flight[s.b].effect
	p.flight = append(p.flight[:s.b:s.b], p.flight[s.b+1:]...)
	out := fsm.EffectEnded{}
	if s.kind != fails {
		out = n.w.shell.carryOut(p, e)
	}
	if s.kind != isDone {
		out = fsm.EffectEnded{Failure: n.w.shell.failure(e.Kind)}
	}
	out.Task, out.Effect = e.Task, e.ID
	n.offer(p, out, 0)
}

// listen lets the leader read the comments of an issue's repository.
func (n *node) listen(i *issue) {
	lead := n.w.directors.lead
	seen, news := n.w.shell.commentsSeen(lead, i.key.Repo())
	if !news {
		return
	}
	n.tell(seen)
	facts, _ := lead.m.Decided()
	for _, f := range facts {
		if c, ok := f.(fsm.CommandTaken); ok {
			lead.told |= 1 << c.Comment
		}
	}
}

// pass lets time pass until the leader's next deadline.
func (n *node) pass() {
	w, d := n.w, n.w.directors
	next := d.lead.m.NextDeadline()
	if slices.ContainsFunc(n.choices(nil), func(s step) bool { return s.kind != passes }) {
		n.left[silence]--
	}
	if d.stale != nil { // by then its lease has expired
		d.stale.dead, d.stale = true, nil
		d.again()
	}
	w.now = max(w.now, int64(next.Sub(epoch)))
	n.tell(fsm.Tick{})
	if after := d.lead.m.NextDeadline(); !after.IsZero() && !after.After(w.wall(d.lead)) {
		w.fail(timerMeansWork, "a deadline is still due after the tick")
	}
	for _, b := range w.runtime.containers { // a worker without an answer repeats its hello
		if !b.welcomed && b.patience == 0 {
			b.patience = 1
		}
	}
}
