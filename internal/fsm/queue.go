package fsm

import (
	"cmp"
	"container/heap"
	"slices"
	"time"
)

// queue is a heap of tasks with a key that its owner recomputes; at tells where in the task its position is kept.
type queue struct {
	tasks []*entry
	pos   func(*Task) *int
}

type entry struct {
	task  *Task
	rank  int
	at    time.Time
	order uint64
}

func (q *queue) Len() int { return len(q.tasks) }

func (q *queue) Less(i, j int) bool {
	a, b := q.tasks[i], q.tasks[j]
	if a.rank != b.rank {
		return a.rank < b.rank
	}
	if !a.at.Equal(b.at) {
		return a.at.Before(b.at)
	}
	return a.order < b.order
}

func (q *queue) Swap(i, j int) {
	q.tasks[i], q.tasks[j] = q.tasks[j], q.tasks[i]
	*q.pos(q.tasks[i].task), *q.pos(q.tasks[j].task) = i, j
}

// Push is heap.Interface's.
func (q *queue) Push(x any) {
	e := x.(*entry)
	*q.pos(e.task) = len(q.tasks)
	q.tasks = append(q.tasks, e)
}

// Pop is heap.Interface's.
func (q *queue) Pop() any {
	e := q.tasks[len(q.tasks)-1]
	q.tasks = q.tasks[:len(q.tasks)-1]
	*q.pos(e.task) = -1
	return e
}

// inOrder returns all tasks, the first first.
func (q *queue) inOrder() []*Task {
	entries := slices.Clone(q.tasks)
	slices.SortFunc(entries, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), a.at.Compare(b.at), cmp.Compare(a.order, b.order))
	})
	tasks := make([]*Task, len(entries))
	for i, e := range entries {
		tasks[i] = e.task
	}
	return tasks
}

// put inserts the task or moves it to its new place.
func (q *queue) put(t *Task, rank int, at time.Time) {
	i := *q.pos(t)
	if i < 0 {
		heap.Push(q, &entry{task: t, rank: rank, at: at, order: t.Seq})
		return
	}
	e := q.tasks[i]
	if e.rank == rank && e.at.Equal(at) {
		return
	}
	e.rank, e.at = rank, at
	heap.Fix(q, i)
}

func (q *queue) remove(t *Task) {
	if i := *q.pos(t); i >= 0 {
		heap.Remove(q, i)
	}
}

// first returns the task with the least key, or nil.
func (q *queue) first() (*Task, time.Time) {
	if len(q.tasks) == 0 {
		return nil, time.Time{}
	}
	return q.tasks[0].task, q.tasks[0].at
}
