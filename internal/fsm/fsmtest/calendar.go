package fsmtest

import "math"

// calendar is a heap of what will happen, by time and then by order of entry.
type calendar struct {
	entries []appointment
	order   uint64
}

type appointment struct {
	at    int64
	order uint64
	do    func()
}

const never = math.MaxInt64

func (c *calendar) first() int64 {
	if len(c.entries) == 0 {
		return never
	}
	return c.entries[0].at
}

func (a appointment) before(b appointment) bool {
	return a.at < b.at || a.at == b.at && a.order < b.order
}

func (c *calendar) add(at int64, do func()) {
	c.order++
	c.entries = append(c.entries, appointment{at, c.order, do})
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

func (c *calendar) take() func() {
	e := c.entries
	do, last := e[0].do, len(e)-1
	e[0], e[last] = e[last], appointment{}
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
