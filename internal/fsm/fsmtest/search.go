package fsmtest

import (
	"fmt"
	"time"
)

// Explored is what the search of a small world has found.
type Explored struct {
	Small  Small
	States int
	Steps  int  // edges between states
	Depth  int  // of the state that is the furthest from the first
	Ends   int  // states in which nothing can happen any more
	Closed bool // every state was seen
	Took   time.Duration
	Bad    *Violation
	Path   []string // how it came about
}

// Explore searches a small world breadth first, up to so many states.
func Explore(s Small, most int, now func() time.Time) Explored {
	out := Explored{Small: s}
	began := now()
	first := newSmall(s)
	type came struct {
		from int32
		by   step
	}
	seen := map[uint64]struct{}{first.key(): {}}
	origin := []came{{-1, step{}}}
	level := []*node{first}
	ids := []int32{0}
	var buffer []step
	for ; len(level) > 0 && out.Bad == nil; out.Depth++ {
		var next []*node
		var nextIDs []int32
		for i, n := range level {
			buffer = n.choices(buffer[:0])
			if len(buffer) == 0 {
				out.Ends++
				if text := n.over(); text != "" {
					out.Bad = &Violation{endsSomewhere, text, out.Depth}
				}
			}
			for _, c := range buffer {
				m := clone(whole, n)
				m.take(c)
				out.Steps++
				if m.w.bad != nil {
					out.Bad = m.w.bad
				}
				k := m.key()
				if _, known := seen[k]; known && out.Bad == nil {
					continue
				}
				seen[k] = struct{}{}
				origin = append(origin, came{ids[i], c})
				next, nextIDs = append(next, m), append(nextIDs, int32(len(origin)-1))
				if out.Bad != nil {
					ids[i] = int32(len(origin) - 1)
					break
				}
			}
			level[i] = nil
			if out.Bad != nil {
				var path []step
				for at := ids[i]; at > 0; at = origin[at].from {
					path = append(path, origin[at].by)
				}
				out.Path = retell(s, path)
				break
			}
			if len(seen) >= most {
				out.States, out.Took = len(seen), now().Sub(began)
				return out
			}
		}
		level, ids = next, nextIDs
	}
	out.States, out.Took, out.Closed = len(seen), now().Sub(began), out.Bad == nil
	return out
}

// retell walks a path, given from its end, and keeps what is told.
func retell(s Small, path []step) (lines []string) {
	n := newSmall(s)
	n.w.transcript(&lines)
	for i := len(path) - 1; i >= 0; i-- {
		n.w.tell("%s", path[i])
		n.take(path[i])
	}
	return lines
}

func (e Explored) String() string {
	how := "stopped"
	if e.Closed {
		how = "closed"
	}
	return fmt.Sprintf("%-28s %9d states  %9d steps  depth %3d  %6d ends  %-7s %s", e.Small.Name, e.States, e.Steps,
		e.Depth, e.Ends, how, e.Took.Round(time.Millisecond))
}
