package fsm

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The queue equals a sorted list after any sequence of insertions, moves and removals.
func TestQueueIsASortedList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q queue
		n := rapid.IntRange(1, 3*maxPart).Draw(t, "tasks")
		tasks, places := make([]*Task, n), make([]place, n)
		for i := range tasks {
			tasks[i] = &Task{Seq: uint64(i + 1)}
		}
		width := rapid.IntRange(1, 2*n).Draw(t, "width")
		full := rapid.Bool().Draw(t, "full") // true if most tasks are in the queue, false if only a few are
		random := rapid.Uint64().Draw(t, "random")
		draw := func(n int) int { // rapid is too slow for so many draws
			random = random*6364136223846793005 + 1442695040888963407
			return int(random>>33) % n
		}
		for range 4 * n {
			i := draw(n)
			to := placeAt(int8(draw(2)), at(draw(width)).Add(time.Duration(draw(3))))
			if (draw(4) == 0) == full {
				to = place{}
			}
			q.move(tasks[i], places[i], to)
			places[i] = to
		}
		var want []*Task
		for i, p := range places {
			if p.in {
				want = append(want, tasks[i])
			}
		}
		slices.SortFunc(want, func(a, b *Task) int {
			x, y := places[a.Seq-1], places[b.Seq-1]
			return cmp.Or(cmp.Compare(x.rank, y.rank), x.at().Compare(y.at()), cmp.Compare(a.Seq, b.Seq))
		})
		if got := slices.Collect(q.all()); !slices.Equal(got, want) || q.n != len(want) {
			t.Fatalf("%d of %d tasks, counted %d, or out of order", len(got), len(want), q.n)
		}
		switch first, at := q.first(); {
		case len(want) == 0 && (first != nil || at != time.Time{}), len(want) > 0 &&
			(first != want[0] || !at.Equal(places[first.Seq-1].at())):
			t.Fatalf("first is %+v at %s", first, at)
		}
		for _, part := range q.parts {
			if len(part) == 0 || len(part) > maxPart {
				t.Fatalf("a part of %d", len(part))
			}
		}
		for i, p := range places {
			q.move(tasks[i], p, place{})
		}
		if q.n != 0 || len(q.parts) != 0 {
			t.Fatalf("%d tasks are left in %d parts", q.n, len(q.parts))
		}
	})
}
