package fsmtest

import (
	"fmt"
	"slices"
	"time"

	"retake/internal/fsm"
)

// maxStatedWait is for how long one task's word closes a resource, in every world.
const maxStatedWait = 15 * time.Minute

// limits is what the journal says of limits: a dumb twin that asks only what closing a resource may rest on.
type limits struct {
	until  map[string]time.Time // by resource: the end of its cooldown
	lifted map[string]time.Time // by resource: when an operator lifted it last
	stated []fsm.Statement      // every one, oldest first
	days   map[fsm.IssueKey]day
}

// day is for how long a task's word alone has kept anything closed within one.
type day struct {
	from   time.Time
	closed time.Duration
	until  map[string]time.Time // by resource: the end of what it has closed
}

// keepsClosed is until when a task keeps anything closed.
func (d day) keepsClosed() (until time.Time) {
	for _, at := range d.until {
		if at.After(until) {
			until = at
		}
	}
	return until
}

func newLimits() *limits {
	return &limits{until: map[string]time.Time{}, lifted: map[string]time.Time{}, days: map[fsm.IssueKey]day{}}
}

func (l *limits) take(at time.Time, f fsm.Fact) {
	switch f := f.(type) {
	case fsm.LimitStated:
		l.stated = slices.DeleteFunc(l.stated, func(s fsm.Statement) bool { return at.Sub(s.At) > 24*time.Hour })
		l.stated = append(l.stated, fsm.Statement(f))
		if d := l.days[f.Task]; d.from.IsZero() || !at.Before(d.from.Add(24*time.Hour)) {
			l.days[f.Task] = day{from: at, until: map[string]time.Time{}}
		}
	case fsm.CooldownSet:
		if len(f.By) == 1 {
			who := f.By[0].Task
			d := l.days[who]
			d.closed += l.prolonged(at, f, d.keepsClosed())
			d.until[f.Resource] = f.Until
			l.days[who] = d
		}
		l.until[f.Resource] = f.Until
	case fsm.CooldownLifted:
		delete(l.until, f.Resource)
		for _, d := range l.days {
			delete(d.until, f.Resource)
		}
		l.lifted[f.Resource] = at
	}
}

// prolonged is for how much longer a fact closes its resource, beyond the time in which the task kept one
// closed anyway.
func (l *limits) prolonged(at time.Time, f fsm.CooldownSet, closed time.Time) time.Duration {
	for _, was := range []time.Time{l.until[f.Resource], closed} {
		if was.After(at) {
			at = was
		}
	}
	return max(0, f.Until.Sub(at))
}

// oneTaskClosesLittle: what is closed on the word of workers was said by them since the last lift, by one task
// for maxStatedWait in a day whatever resources it names, beyond that by two of them to the earlier deadline.
func oneTaskClosesLittle(h *history, _ *process, r fsm.Record, f fsm.Fact) string {
	c, ok := f.(fsm.CooldownSet)
	if !ok || len(c.By) == 0 {
		return ""
	}
	for _, by := range c.By {
		i := slices.IndexFunc(h.limits.stated, func(s fsm.Statement) bool {
			return s.Resource == c.Resource &&
				s.Stated == by
		})
		switch {
		case i < 0:
			return fmt.Sprintf("%s is closed on the word of %s, which did not say so", c.Resource, by.Task)
		case by.At.Before(h.limits.lifted[c.Resource]):
			return fmt.Sprintf("%s is closed on what %s said before it was lifted", c.Resource, by.Task)
		case c.Until.After(by.Until):
			return fmt.Sprintf("%s is closed until %s, and %s said %s", c.Resource, clock(c.Until), by.Task,
				clock(by.Until))
		case len(c.By) > 1 && r.At.Sub(by.At) > 2*maxStatedWait:
			return fmt.Sprintf("%s is closed on what %s said %s ago", c.Resource, by.Task, r.At.Sub(by.At))
		}
	}
	switch {
	case len(c.By) > 2, len(c.By) == 2 && c.By[0].Task == c.By[1].Task:
		return fmt.Sprintf("%s is closed on the word of %v, who are not two tasks", c.Resource, c.By)
	case len(c.By) == 2:
		return ""
	}
	d := h.limits.days[c.By[0].Task]
	alone := d.closed + h.limits.prolonged(r.At, c, d.keepsClosed())
	if alone > maxStatedWait || c.Until.After(r.At.Add(maxStatedWait)) {
		return fmt.Sprintf("%s alone closes %s until %s, for %s of a day", c.By[0].Task, c.Resource, clock(c.Until),
			alone)
	}
	return ""
}

// wordsAreWords: what a worker says is never taken for what the director saw itself.
func wordsAreWords(_ *history, p *process, _ time.Time, body fsm.EventBody, facts []fsm.Fact, _ []fsm.Effect) string {
	said := false
	for _, f := range facts {
		switch f := f.(type) {
		case fsm.VerdictMade:
			t := p.m.Task(f.Task)
			said = t != nil && t.Ending.Finding != nil && t.Ending.Known == ""
		case fsm.CooldownSet:
			if _, reported := body.(fsm.LimitReported); len(f.By) == 0 && (said || reported) {
				return fmt.Sprintf("%s is closed until %s because a worker says so, and nothing says which", f.Resource,
					clock(f.Until))
			}
		}
	}
	return ""
}

// liftedIsOpen: after an operator's command the resource is open, and who waits for it, or may be put off
// because of it, may go on.
func liftedIsOpen(_ *history, p *process, _ time.Time, body fsm.EventBody, facts []fsm.Fact, _ []fsm.Effect) string {
	l, ok := body.(fsm.LiftCommanded)
	if !ok {
		return ""
	}
	for _, c := range p.m.Cooldowns() {
		if c.Resource == l.Resource {
			return fmt.Sprintf("%s was lifted and is closed until %s", c.Resource, clock(c.Until))
		}
	}
	for _, f := range facts {
		if lifted, ok := f.(fsm.CooldownLifted); ok {
			for _, k := range lifted.Tasks {
				if t := p.m.Task(k); t != nil && t.State == fsm.Backoff && t.Until.After(p.m.Now()) {
					return fmt.Sprintf("%s was lifted and %s waits until %s", l.Resource, k, clock(t.Until))
				}
			}
		}
	}
	return ""
}

// limitSaid lets a worker say that a model is limited, and now and then another one the same a little later.
func (w *world) limitSaid() {
	resource := [...]string{"model.anthropic", "model.default"}[w.choices.pick(limitStated, 2)]
	until := w.now + seconds([...]int{30, 600, 7200, 18000, 70000}[w.choices.pick(limitStated, 5)])
	for n := range 1 + w.choices.pick(limitStated, 3) {
		w.after(int64(n)*w.delay(1800), func() {
			if len(w.containers) == 0 {
				return
			}
			b := w.containers[w.choices.pick(limitStated, len(w.containers))]
			w.offer(w.lead, fsm.LimitReported{
				Worker: b.attempt, Resource: resource,
				Until: epoch.Add(time.Duration(until)), Text: "429",
			}, nil)
		})
	}
}

// lift opens one of the resources that are closed. Workers may not have heard of it.
func (w *world) lift(p *process) {
	if closed := p.m.Cooldowns(); len(closed) > 0 {
		w.offer(p, fsm.LiftCommanded{Resource: closed[w.choices.pick(limitLifted, len(closed))].Resource}, func() {})
		w.after(w.delay(600), w.limitSaid)
	}
}
