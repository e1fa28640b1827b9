package fsm

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"time"
)

// place is a task's position in a queue. The zero place means that the task is not queued. The type is small, because
// each task has several places.
type place struct {
	sec  int64 // since 1970
	nsec int32
	rank int8
	in   bool
}

func placeAt(rank int8, at time.Time) place {
	return place{at.Unix(), int32(at.Nanosecond()), rank, true}
}

func (p place) at() time.Time { return time.Unix(p.sec, int64(p.nsec)).UTC() }

// queue contains tasks, ordered by place, in nonempty parts of at most maxPart tasks. Inserting or removing a task
// shifts only the tasks of one part.
type queue struct {
	n     int
	parts [][]placed
}

// placed is a task with its position. A search compares positions without loading tasks.
type placed struct {
	place
	seq uint64 // Task.Seq
	t   *Task
}

const maxPart = 256

func (p placed) compare(o placed) int {
	return cmp.Or(cmp.Compare(p.rank, o.rank), cmp.Compare(p.sec, o.sec), cmp.Compare(p.nsec, o.nsec),
		cmp.Compare(p.seq, o.seq))
}

// move changes a task's position in the queue.
func (q *queue) move(t *Task, from, to place) {
	if from == to {
		return
	}
	if from.in {
		q.remove(placed{from, t.Seq, t})
	}
	if to.in {
		q.insert(placed{to, t.Seq, t})
	}
}

// partOf returns the index of the last part that begins at or before p, or 0.
func (q *queue) partOf(p placed) int {
	i, _ := slices.BinarySearchFunc(q.parts, p, func(part []placed, p placed) int {
		if part[0].compare(p) <= 0 {
			return -1
		}
		return 1
	})
	return max(i-1, 0)
}

func (q *queue) insert(p placed) {
	q.n++
	if len(q.parts) == 0 {
		q.parts = [][]placed{{p}}
		return
	}
	n := q.partOf(p)
	i, _ := slices.BinarySearchFunc(q.parts[n], p, placed.compare)
	part := slices.Insert(q.parts[n], i, p)
	if q.parts[n] = part; len(part) > maxPart {
		half := len(part) / 2
		q.parts[n] = slices.Clone(part[:half])
		q.parts = slices.Insert(q.parts, n+1, slices.Clone(part[half:]))
	}
}

func (q *queue) remove(p placed) {
	if len(q.parts) == 0 {
		return
	}
	n := q.partOf(p)
	i, found := slices.BinarySearchFunc(q.parts[n], p, placed.compare)
	if !found {
		return
	}
	q.n--
	q.parts[n] = slices.Delete(q.parts[n], i, i+1)
	if len(q.parts[n]) == 0 {
		q.parts = slices.Delete(q.parts, n, n+1)
	} else if n+1 < len(q.parts) && len(q.parts[n])+len(q.parts[n+1]) <= maxPart/2 {
		q.parts[n] = append(q.parts[n], q.parts[n+1]...)
		q.parts = slices.Delete(q.parts, n+1, n+2)
	}
}

// first returns the first task and its time, or nil.
func (q *queue) first() (*Task, time.Time) {
	if len(q.parts) == 0 {
		return nil, time.Time{}
	}
	p := q.parts[0][0]
	return p.t, p.at()
}

// before returns the number of tasks before a position.
func (q *queue) before(p placed) (n int) {
	last := q.partOf(p)
	for i := range min(last, len(q.parts)) {
		n += len(q.parts[i])
	}
	if last < len(q.parts) {
		i, _ := slices.BinarySearchFunc(q.parts[last], p, placed.compare)
		n += i
	}
	return n
}

// all iterates over the tasks in order.
func (q *queue) all() iter.Seq[*Task] {
	return func(yield func(*Task) bool) {
		for _, part := range q.parts {
			for _, p := range part {
				if !yield(p.t) {
					return
				}
			}
		}
	}
}

// waiters contains the tasks that may begin an attempt, grouped by the limits that apply to them. The scheduler checks
// each group once instead of each task.
type waiters struct {
	n     int
	lists []*waiterList // ordered by key; none of the lists is empty
}

type waiterList struct {
	of alike
	queue
}

// alike is the key shared by all tasks of one list. An incident, a closed model or a cap blocks either all of them or
// none.
type alike struct {
	repo    string
	queued  bool   // set if the next step is to claim a queued issue
	noModel bool   // set if the next step does not use a model
	capped  string // the task's capped labels, joined
}

func (a alike) compare(o alike) int {
	return cmp.Or(cmp.Compare(a.repo, o.repo), compareBools(a.queued, o.queued), compareBools(a.noModel, o.noModel),
		cmp.Compare(a.capped, o.capped))
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// turn is the task's position among the waiters.
type turn struct {
	place
	list *waiterList // nil if the task is not in a list
}

// compareTurns compares the positions of two waiting tasks.
func compareTurns(t, o *Task) int {
	return placed{t.ready.place, t.Seq, t}.compare(placed{o.ready.place, o.Seq, o})
}

// move changes a task's position and the list that contains it.
func (w *waiters) move(t *Task, to place, of alike) {
	was := t.ready
	if was.place == to && (!to.in || was.list.of == of) {
		return
	}
	if was.in {
		w.n--
		was.list.remove(placed{was.place, t.Seq, t})
		if was.list.n == 0 {
			i, _ := w.find(was.list.of)
			w.lists = slices.Delete(w.lists, i, i+1)
		}
	}
	t.ready = turn{}
	if to.in {
		w.n++
		i, found := w.find(of)
		if !found {
			w.lists = slices.Insert(w.lists, i, &waiterList{of: of})
		}
		t.ready = turn{to, w.lists[i]}
		t.ready.list.insert(placed{to, t.Seq, t})
	}
}

func (w *waiters) find(of alike) (int, bool) {
	return slices.BinarySearchFunc(w.lists, of, func(l *waiterList, of alike) int { return l.of.compare(of) })
}

// slots contains the tasks that hold one of the director.max_workers slots, in order of arrival.
type slots struct {
	queue
	byRepo, byLabel map[string]int // number of tasks by lower-case repository, and by capped label
}

func (s *slots) move(t *Task, holds bool) {
	if t.slot == holds {
		return
	}
	was := place{in: t.slot}
	t.slot = holds
	s.queue.move(t, was, place{in: holds})
	by := -1
	if holds {
		by = 1
	}
	count(s.byRepo, strings.ToLower(t.Key.Repo()), by)
	s.label(t, by)
}

// label adds a number to the counts of a task's capped labels.
func (s *slots) label(t *Task, by int) {
	for _, label := range t.Standing.Capped {
		count(s.byLabel, label, by)
	}
}

func count(in map[string]int, name string, by int) {
	if in[name] += by; in[name] == 0 {
		delete(in, name)
	}
}
