package fsmtest

import (
	"slices"

	"retake/internal/fsm"
)

// This file is what people do in small worlds: with pull requests, and in comments.

// smallReviews are what can happen to an open pull request.
var smallReviews = []func(w *world, x *pull){
	func(w *world, x *pull) {
		w.reviews++
		x.changes = append(x.changes, fsm.Change{ID: int64(w.reviews), Hint: fsm.Hint{From: "octocat", Text: "x"}})
	},
	func(_ *world, x *pull) { x.failing = true },
	func(_ *world, x *pull) { x.state = "merged" },
}

// smallWords are the commands that people give.
var smallWords = []fsm.CommentView{
	{Command: fsm.CommandRetry},
	{Command: fsm.CommandSnooze, For: 1e9},
	{Command: fsm.CommandStop},
}

// people lists what people can do, and what a director can see of it.
func (n *node) people(out []step) []step {
	w := n.w
	for j, i := range w.issues {
		if x := i.pull; x != nil && x.state == "open" && n.left.reviews > 0 {
			for kind := range smallReviews {
				out = append(out, step{isReviewed, uint8(j), uint8(kind)})
			}
		}
		if n.left.words > 0 {
			for kind := range smallWords {
				out = append(out, step{speaks, uint8(j), uint8(kind)})
			}
		}
		t := w.lead.m.Task(i.key)
		if t != nil && t.State == fsm.InReview && i.pull != nil && i.pull.news(t.Reviewed) || t != nil &&
			waitsForPeople(t) && i.pull != nil && i.pull.state != "open" {
			out = append(out, step{looked, uint8(j), 0})
		}
		if w.waiting(w.lead) && canHear(t) {
			out = append(out, step{listens, uint8(j), 0})
		}
	}
	return out
}

// waiting reports whether the director has still to decide about a command.
func (w *world) waiting(p *process) bool {
	return slices.ContainsFunc(w.comments, func(c *comment) bool {
		_, taken := w.history.taken[c.said.CommandRef]
		return !taken && p.told&(1<<c.said.Comment) == 0
	})
}

// news reports whether something of the pull request is not acted upon yet.
func (x *pull) news(r fsm.Reviewed) bool {
	return x.state != "open" || len(x.changes) > 0 && x.changes[len(x.changes)-1].ID > r.Change || x.failing &&
		r.Checks != x.commit()
}

func waitsForPeople(t *fsm.Task) bool {
	return t.Work.PullRequest > 0 && (t.State == fsm.InReview || t.State == fsm.Backoff || t.State == fsm.Parked ||
		t.State == fsm.Blocked)
}

// canHear reports whether a command can be decided: no effect is at work on the issue.
func canHear(t *fsm.Task) bool {
	switch {
	case t == nil:
		return true
	case t.State == fsm.Blocked || t.State == fsm.Parked:
		return len(t.Outbox) == 0
	}
	return t.State == fsm.Queued || t.State == fsm.Backoff || t.State == fsm.InReview || t.State.Info().Live
}

// act is what somebody does, or what a director sees.
func (n *node) act(s step) {
	w := n.w
	i := w.issues[s.a]
	switch s.kind {
	case isReviewed:
		n.left.reviews--
		smallReviews[s.b](w, i.pull)
	case speaks:
		n.left.words--
		w.said++
		said := smallWords[s.b]
		said.Task, said.By, said.Comment = i.key, "octocat", int64(w.said)
		// at no time: states that differ in nothing else are the same
		w.comments = append(w.comments, &comment{said: said})
	case looked:
		n.offer(w.lead, w.pullSeen(w.lead, i), 0)
	case listens:
		if seen, news := w.commentsSeen(w.lead, i.key.Repo()); news {
			n.offer(w.lead, seen, 0)
			facts, _ := decided(w.lead.m)
			for _, f := range facts {
				if c, ok := f.(fsm.CommandTaken); ok {
					w.lead.told |= 1 << c.Comment
				}
			}
		}
	}
}
