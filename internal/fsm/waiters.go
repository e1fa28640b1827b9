package fsm

import (
	"cmp"
	"slices"
	"strings"
)

// waiters are the tasks that may begin an attempt, in lists of those that the same things keep back: so nobody
// looks at each of them.
type waiters struct {
	n     int
	lists []*waiterList // in the order of what they have in common; none is empty
}

type waiterList struct {
	of alike
	queue
}

// alike is what the tasks of one list have in common, beside the rank: an incident, a closed model or a cap
// concerns all of them, or none.
type alike struct {
	repo    string
	noModel bool   // what is next uses none
	capped  string // the labels with a cap, joined
}

func (a alike) compare(o alike) int {
	return cmp.Or(cmp.Compare(a.repo, o.repo), compareBools(a.noModel, o.noModel), cmp.Compare(a.capped, o.capped))
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

// turn is a task's place among the waiters.
type turn struct {
	place
	list *waiterList // nil: it is not in one
}

// compareTurns compares the places of two tasks that wait.
func compareTurns(t, o *Task) int {
	return placed{t.ready.place, t.Seq, t}.compare(placed{o.ready.place, o.Seq, o})
}

// move takes a task from where it waits to another place.
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

// slots are the tasks that hold one of director.max_workers, in order of arrival.
type slots struct {
	queue
	byRepo, byLabel map[string]int // how many they are, by repository in lower case and by label with a cap
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

// label counts the labels of a task that holds a slot.
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
