package fsmtest

import (
	"fmt"
	"slices"

	"retake/internal/fsm"
)

// request is a command that the operator gives the director itself. Who has no answer repeats it.
type request struct{ fsm.CommentView }

// requestEvery is the time between two tries of a request, seconds: its sender does not know whether the last
// one was heard.
const requestEvery = 5

// request lets the operator command something of a task, in one world of four. Its choices are its own, so that
// the other worlds are what they were.
func (w *world) request() {
	w.after(seconds(120+10*w.choices.pick(atRequest, 60)), w.request)
	if w.faultsStopped {
		return
	}
	s := spoken[1+w.choices.pick(atRequest, len(spoken)-3)] // a command, and not one that only wants to know something
	w.asked++
	s.Task, s.By, s.Request = w.issues[w.choices.pick(atRequest, len(w.issues))].key, "alice",
		fmt.Sprintf("r%d", w.asked)
	r := &request{s}
	w.requests = append(w.requests, r)
	w.tell("the operator asks for %q on %s: request %s", s.Command, s.Task, s.Request)
	w.put(r)
}

// put hands a request to whoever leads, until there is an answer. Now and then one is repeated that was answered.
func (w *world) put(r *request) {
	p := w.lead
	w.offer(p, fsm.CommentsSeen{Comments: []fsm.CommentView{r.CommentView}}, func() {
		refused, decided := p.m.Requested(r.Request)
		if !decided {
			return
		}
		w.after(1, func() { w.confirm(p, r, refused) })
	})
	w.after(seconds(requestEvery), func() {
		if slices.Contains(w.requests, r) && w.bad == nil {
			w.put(r)
		}
	})
}

// confirm answers a request. What the machine knows of it may have been decided a moment ago, for a repetition,
// and be in no journal yet: so that is waited for.
func (w *world) confirm(p *process, r *request, refused string) {
	w.offer(p, fsm.Tick{}, func() {
		w.answeredDurably(r, refused)
		if w.choices.pick(atRequest, 3) > 0 {
			w.requests = slices.DeleteFunc(w.requests, func(other *request) bool { return other == r })
		}
	})
}

// unanswered names a request that nobody has decided about yet.
func (w *world) unanswered() string {
	for _, r := range w.requests {
		if _, taken := w.history.taken[r.CommandRef]; !taken {
			return fmt.Sprintf("nobody has decided about request %s on %s: %s", r.Request, r.Task, r.Command)
		}
	}
	return ""
}

// answeredDurably: what a sender is told was decided is in the journal.
func (w *world) answeredDurably(r *request, refused string) {
	if in, taken := w.history.taken[r.CommandRef]; !taken || in != refused {
		w.fail("CommandsCountOnce", "request %s is answered with %q, the journal has %q", r.Request, refused, in)
	}
}
