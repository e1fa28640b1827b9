package page

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"retake/internal/fsm"
)

// place is a state's cell in the state machine drawing.
type place struct {
	state  fsm.State
	column int
	row    int
}

// places lists the cells of the states. The first row has the usual sequence of states from left to right.
// Interruptions are below it.
var places = []place{
	{fsm.Queued, 0, 0},
	{fsm.Claiming, 1, 0},
	{fsm.Starting, 2, 0},
	{fsm.Running, 3, 0},
	{fsm.Stopping, 4, 0},
	{fsm.Delivering, 5, 0},
	{fsm.InReview, 6, 0},
	{fsm.Done, 7, 0},
	{fsm.Forgotten, 1, 1},
	{fsm.Suspect, 3, 1},
	{fsm.Backoff, 4, 1},
	{fsm.Blocked, 5, 1},
	{fsm.Released, 6, 1},
	{fsm.Parked, 5, 2},
}

// node and edge are the elements of the drawing.
type node struct {
	X, Y  int
	Name  string
	Means string
	N     int
}

type edge struct {
	From, To string
	Path     string
	About    string
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
		_, count, err := s.Board(ctx, 0)
		if err != nil {
			return nil, err
		}
		return drawnMachine(count), nil
	})
}

func drawnMachine(count map[string]int) machinePart {
	m := machinePart{
		Width: drawingWidth, Height: drawingHeight, Box: [2]int{boxWidth, boxHeight}, States: fsm.States,
		Transitions: fsm.Transitions,
	}
	for _, at := range places {
		i := at.state.Info()
		m.Nodes = append(m.Nodes, node{X: at.x(), Y: at.y(), Name: i.Name, Means: i.Means, N: count[i.Name]})
	}
	means := map[[2]fsm.State]string{}
	var order [][2]fsm.State
	for _, t := range fsm.Transitions {
		for _, from := range t.From {
			key := [2]fsm.State{from, t.To}
			if from == t.To { // listed only in the table below the drawing
				continue
			}
			if means[key] == "" {
				order = append(order, key)
				means[key] = t.On.Info().Means
			} else {
				means[key] += "; " + t.On.Info().Means
			}
		}
	}
	paths := routed(order)
	for i, key := range order {
		m.Edges = append(m.Edges, edge{
			key[0].String(), key[1].String(), paths[i],
			fmt.Sprintf("%s → %s: %s", key[0], key[1], means[key]),
		})
	}
	return m
}

func placeOf(s fsm.State) place {
	if i := slices.IndexFunc(places, func(p place) bool { return p.state == s }); i >= 0 {
		return places[i]
	}
	return place{state: s}
}

func (p *Page) showTables(w http.ResponseWriter, r *http.Request) {
	p.show(w, r, "tables", "Decision tables", func(_ context.Context, s Source) (any, error) { return s.Tables(), nil })
}
