package fsmtest

import "math"

// eventQueue is a heap of what will happen, by time and then by order of entry.
type eventQueue struct {
	entries []scheduledEvent
	order   uint64
}

type scheduledEvent struct {
	at    int64
	order uint64
	do    func()
}

const never = math.MaxInt64

func (c *eventQueue) first() int64 {
	if len(c.entries) == 0 {
		return never
	}
	return c.entries[0].at
}

func (a scheduledEvent) before(b scheduledEvent) bool {
	return a.at < b.at || a.at == b.at && a.order < b.order
}

func (c *eventQueue) add(at int64, do func()) {
	c.order++
	c.entries = append(c.entries, scheduledEvent{at, c.order, do})
	e := c.entries
	for i := len(e) - 1; i > 0; {
		up := (i - 1) / 2
		if !e[i].before(e[up]) {
			return
		}
		e[i], e[up] = e[up], e[i]
		i = up
	}
}

func (c *eventQueue) take() func() {
	e := c.entries
	do, last := e[0].do, len(e)-1
	e[0], e[last] = e[last], scheduledEvent{}
	e = e[:last]
	c.entries = e
	for i := 0; ; {
		least := i
		for _, down := range [...]int{2*i + 1, 2*i + 2} {
			if down < last && e[down].before(e[least]) {
				least = down
			}
		}
		if least == i {
			return do
		}
		e[i], e[least] = e[least], e[i]
		i = least
	}
}
