package fsmtest

import (
	"fmt"
	"time"

	"retake/internal/fsm/fsmtest/deep"
)

// Small describes a world that is small enough to search exhaustively, in every order of events. It has as many workers
// as issues, and director.max_retries is 2.
type Small struct {
	Name    string
	Issues  int // 1 or 2
	Faults  smallFaults
	Clean   bool // work is validated in a clean container
	Cluster bool // attempts wait for capacity, and have separate checkouts
	Mounts  bool // in a cluster, attempts use the director's checkout
}

// smallFaults counts the faults of each kind.
type smallFaults [12]int

type smallFault uint8

const (
	drops    smallFault = iota // messages lost
	doubles                    // messages delivered twice
	failures                   // effects that fail before or after they take place
	deaths                     // workers that end without a report
	bad                        // reports of a failure
	crash                      // crashes of the director at any time; a running append lands or not
	stale                      // directors that are replaced and do not notice
	silence                    // deadlines that pass although another event is possible
	// reviews, checks and merges of pull requests; if it is 0, work is delivered as a branch
	reviews
	words // commands in comments
	lost  // nodes that are lost
	back  // lost nodes that return
)

// SmallWorlds lists the worlds that CI searches. All of them allow any order of messages, reports and appends.
var SmallWorlds = []Small{
	{Name: "one issue, bus", Issues: 1, Faults: smallFaults{drops: 1, doubles: 1, bad: 1}},
	{Name: "one issue, effects fail", Issues: 1, Faults: smallFaults{failures: 2, bad: 1}},
	{Name: "one issue, a crash", Issues: 1, Faults: smallFaults{deaths: 1, bad: 1, crash: 1}},
	{Name: "one issue, a stale leader", Issues: 1, Faults: smallFaults{doubles: 1, stale: 1}},
	{Name: "one issue, both", Issues: 1, Faults: smallFaults{bad: 1, crash: 1, stale: 1}},
	{Name: "one issue, silence", Issues: 1, Faults: smallFaults{drops: 1, silence: 2}},
	{Name: "one issue, all", Issues: 1, Faults: smallFaults{drops: 1, doubles: 1, bad: 1, crash: 1, stale: 1}},
	{Name: "one issue, reviews", Issues: 1, Faults: smallFaults{reviews: 3, crash: 1}},
	{Name: "one issue, a command", Issues: 1, Faults: smallFaults{bad: 1, words: 1}},
	{Name: "one issue, a command, a crash", Issues: 1, Faults: smallFaults{bad: 1, words: 1, crash: 1}},
	{Name: "one issue, two commands", Issues: 1, Faults: smallFaults{bad: 1, words: 2}},
	{Name: "one issue, all human actions", Issues: 1, Faults: smallFaults{reviews: 2, words: 1}},
	{Name: "one issue, a review, stale", Issues: 1, Faults: smallFaults{reviews: 1, stale: 1}},
	{Name: "one issue, a command, stale", Issues: 1, Faults: smallFaults{words: 1, stale: 1}},
	{Name: "one issue, validated cleanly", Issues: 1, Faults: smallFaults{bad: 1, crash: 1}, Clean: true},
	{Name: "one issue, validated cleanly, stale", Issues: 1, Faults: smallFaults{stale: 1}, Clean: true},
	{Name: "one issue, a cluster", Issues: 1, Faults: smallFaults{bad: 1, crash: 1, silence: 1}, Cluster: true},
	{Name: "one issue, a lost node", Issues: 1, Faults: smallFaults{crash: 1, lost: 1}, Cluster: true},
	{Name: "one issue, a lost node, stale", Issues: 1, Faults: smallFaults{stale: 1, lost: 1}, Cluster: true},
	{
		Name: "one issue, a lost node, a mount", Issues: 1, Faults: smallFaults{crash: 1, lost: 1, back: 1},
		Cluster: true, Mounts: true,
	},
	{Name: "two issues, bus", Issues: 2, Faults: smallFaults{drops: 1, doubles: 1, bad: 1}},
	{Name: "two issues, three attempts", Issues: 2, Faults: smallFaults{bad: 2}},
	{Name: "two issues, a crash", Issues: 2, Faults: smallFaults{crash: 1}},
	{Name: "two issues, all", Issues: 2, Faults: smallFaults{drops: 1, doubles: 1, bad: 2, crash: 1, stale: 1}},
}

// Explored is the result of a search.
type Explored struct {
	Small  Small
	States int
	Steps  int  // edges between states
	Depth  int  // maximum distance of a state from the first one
	Ends   int  // states without further steps
	Closed bool // every state was seen
	Took   time.Duration
	Bad    *Violation
	Path   []string // events that led to the violation
}

// search explores a small world, breadth first.
type search struct {
	Explored
	most int
	seen map[uint64]struct{}
	came []origin
}

// origin is the step by which the search first reached a state.
type origin struct {
	from int // index of the previous state, or -1 for the first state
	by   step
}

// found is a state with unknown successors.
type found struct {
	*node
	id int
}

// Explore searches a small world. It stops when it has found the maximum number of states.
func Explore(s Small, most int, now func() time.Time) Explored {
	began, first := now(), newSmall(s)
	x := &search{
		Explored: Explored{Small: s}, most: most, seen: map[uint64]struct{}{first.key(): {}},
		came: []origin{{from: -1}},
	}
	for level := []found{{first, 0}}; len(level) > 0 && x.Bad == nil && len(x.seen) < most; {
		if level = x.next(level); len(x.seen) < most {
			x.Depth++
		}
	}
	x.States, x.Took, x.Closed = len(x.seen), now().Sub(began), x.Bad == nil && len(x.seen) < most
	return x.Explored
}

// next returns the successors of all states in a level.
func (x *search) next(level []found) (after []found) {
	var choices []step
	for i, n := range level {
		choices = n.choices(choices[:0])
		if len(choices) == 0 {
			x.Ends++
			if text := n.over(); text != "" {
				x.fail(&Violation{endsSomewhere, text, x.Depth}, n.id)
				return nil
			}
		}
		for _, c := range choices {
			m := deep.Clone(whole, n.node)
			m.take(c)
			x.Steps++
			k := m.key()
			if _, known := x.seen[k]; known && m.w.bad == nil {
				continue
			}
			x.seen[k] = struct{}{}
			x.came = append(x.came, origin{n.id, c})
			if m.w.bad != nil {
				x.fail(m.w.bad, len(x.came)-1)
				return nil
			}
			after = append(after, found{m, len(x.came) - 1})
		}
		level[i].node = nil // release the memory
		if len(x.seen) >= x.most {
			return after
		}
	}
	return after
}

// fail records a violation, and replays the steps that led to it.
func (x *search) fail(bad *Violation, id int) {
	x.Bad = bad
	var path []step
	for ; id > 0; id = x.came[id].from {
		path = append(path, x.came[id].by)
	}
	n := newSmall(x.Small)
	n.w.transcript(&x.Path)
	for i := len(path) - 1; i >= 0; i-- {
		n.w.tell("%s", path[i])
		n.take(path[i])
	}
}

func (e Explored) String() string {
	how := "stopped"
	if e.Closed {
		how = "closed"
	}
	return fmt.Sprintf("%-28s %9d states  %9d steps  depth %3d  %6d ends  %-7s %s", e.Small.Name, e.States, e.Steps,
		e.Depth, e.Ends, how, e.Took.Round(time.Millisecond))
}
