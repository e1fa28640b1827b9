package fsm

import (
	"cmp"
	"slices"
	"time"
)

// place is a task's place in a queue. The task keeps it, so that what it has to leave is known.
type place struct {
	in   bool
	rank int
	at   time.Time
}

// queue holds tasks in the order of their places; of returns a task's.
type queue struct {
	tasks []*Task
	of    func(*Task) *place
}

// move takes a task from its place to another one.
func (q *queue) move(t *Task, to place) {
	p := q.of(t)
	if *p == to {
		return
	}
	if p.in {
		i, _ := slices.BinarySearchFunc(q.tasks, t, q.compare)
		q.tasks = slices.Delete(q.tasks, i, i+1)
	}
	if *p = to; to.in {
		i, _ := slices.BinarySearchFunc(q.tasks, t, q.compare)
		q.tasks = slices.Insert(q.tasks, i, t)
	}
}

func (q *queue) compare(a, b *Task) int {
	x, y := q.of(a), q.of(b)
	return cmp.Or(cmp.Compare(x.rank, y.rank), x.at.Compare(y.at), cmp.Compare(a.Seq, b.Seq))
}

// first returns the first task and its time, or nil.
func (q *queue) first() (*Task, time.Time) {
	if len(q.tasks) == 0 {
		return nil, time.Time{}
	}
	return q.tasks[0], q.of(q.tasks[0]).at
}
