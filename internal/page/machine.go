package page

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"retake/internal/fsm"
	"retake/internal/story"
)

// place is where a state stands in the drawing of the machine, in cells.
type place struct {
	state  fsm.State
	column int
	row    int
}

// places is the table of them: the usual course from left to right, what interrupts it below.
var places = []place{
	{fsm.Queued, 0, 0},
	{fsm.Claiming, 1, 0},
	{fsm.Starting, 2, 0},
	{fsm.Running, 3, 0},
	{fsm.Stopping, 4, 0},
	{fsm.Delivering, 5, 0},
	{fsm.InReview, 6, 0},
	{fsm.Done, 7, 0},
	{fsm.Suspect, 3, 1},
	{fsm.Backoff, 4, 1},
	{fsm.Blocked, 5, 1},
	{fsm.Released, 6, 1},
	{fsm.Forgotten, 1, 1},
	{fsm.Parked, 5, 2},
}

// Sizes of the drawing.
const (
	cellWidth, cellHeight = 118, 110
	boxWidth, boxHeight   = 92, 48
)

// node and edge are what is drawn.
type node struct {
	X, Y  int
	Name  string
	Means string
	N     int
	Final bool
}

type edge struct {
	Path  string
	About string
}

type machinePart struct {
	Width, Height int
	Box           [2]int
	Nodes         []node
	Edges         []edge
	Transitions   []fsm.Transition
	States        []fsm.StateInfo
}

func (p *Page) showMachine(w http.ResponseWriter, r *http.Request) {
	p.show(w, r, "machine", "The machine", func(ctx context.Context, s Source) (any, error) {
		rows, err := s.Rows(ctx)
		if err != nil {
			return nil, err
		}
		return drawnMachine(rows), nil
	})
}

func drawnMachine(rows []story.Story) machinePart {
	count := map[string]int{}
	for _, t := range rows {
		count[t.State]++
	}
	m := machinePart{Width: 8 * cellWidth, Height: 3 * cellHeight, Box: [2]int{boxWidth, boxHeight}, States: fsm.States}
	for _, at := range places {
		i := at.state.Info()
		m.Nodes = append(m.Nodes, node{X: at.column*cellWidth + 10, Y: at.row*cellHeight + 20, Name: i.Name, Means: i.Means, N: count[i.Name], Final: i.Final})
	}
	means := map[[2]fsm.State]string{}
	var order [][2]fsm.State
	for _, t := range fsm.Transitions {
		text := t.On.Info().Means
		for _, from := range t.From {
			key := [2]fsm.State{from, t.To}
			if means[key] == "" {
				order = append(order, key)
			} else {
				text = "; " + text
			}
			means[key] += text
			text = t.On.Info().Means
		}
		m.Transitions = append(m.Transitions, t)
	}
	for _, key := range order {
		m.Edges = append(m.Edges, edge{curve(key[0], key[1]), fmt.Sprintf("%s → %s: %s", key[0], key[1], means[key])})
	}
	return m
}

// curve is the path of an arrow from one box to another one.
func curve(from, to fsm.State) string {
	a, b := placeOf(from), placeOf(to)
	ax, ay := a.column*cellWidth+10, a.row*cellHeight+20
	bx, by := b.column*cellWidth+10, b.row*cellHeight+20
	switch {
	case a.row == b.row && b.column == a.column+1: // the next one
		return fmt.Sprintf("M%d %d L%d %d", ax+boxWidth, ay+boxHeight/2, bx-3, by+boxHeight/2)
	case a.row == b.row && b.column > a.column:
		return fmt.Sprintf("M%d %d Q%d %d %d %d", ax+boxWidth/2, ay, (ax+bx+boxWidth)/2, ay-18, bx+boxWidth/2, by-3)
	case a.row == b.row: // back
		return fmt.Sprintf("M%d %d Q%d %d %d %d", ax+boxWidth/2, ay+boxHeight, (ax+bx+boxWidth)/2, ay+boxHeight+22, bx+boxWidth/2, by+boxHeight+3)
	case a.row < b.row: // down; beside the way up
		return fmt.Sprintf("M%d %d L%d %d", ax+boxWidth/2+6, ay+boxHeight, bx+boxWidth/2+6, by-3)
	}
	return fmt.Sprintf("M%d %d L%d %d", ax+boxWidth/2-8, ay, bx+boxWidth/2-8, by+boxHeight+3)
}

func placeOf(s fsm.State) place {
	if i := slices.IndexFunc(places, func(p place) bool { return p.state == s }); i >= 0 {
		return places[i]
	}
	return place{state: s}
}

func (p *Page) showTables(w http.ResponseWriter, r *http.Request) {
	p.show(w, r, "tables", "What decides", func(_ context.Context, s Source) (any, error) { return s.Tables(), nil })
}
