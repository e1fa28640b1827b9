package page

import (
	"context"
	"net/http"
	"slices"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/fsm"
	"retake/internal/timeline"
)

// column is one column of the board.
type column struct {
	Name, About string
	states      []fsm.State
}

// columns lists the board's columns. Tasks that need a person come first. The other columns follow a task's usual path.
var columns = []column{
	{"Needs you", "waiting for your answer", []fsm.State{fsm.Blocked}},
	{"Queued", "waiting for a free slot", []fsm.State{fsm.Queued, fsm.Claiming}},
	{"Working", "an attempt is under way", []fsm.State{fsm.Starting, fsm.Running, fsm.Suspect, fsm.Stopping}},
	{"Waiting", "for the next attempt", []fsm.State{fsm.Backoff, fsm.Parked}},
	{"In review", "a pull request", []fsm.State{fsm.Delivering, fsm.InReview}},
	{"Over", "done, or given up", []fsm.State{fsm.Done, fsm.Released}},
}

// cardsShown limits the cards drawn in one column. Further tasks are only counted.
const cardsShown = 40

// boardPart is the data of the board and of the fleet summary above it.
type boardPart struct {
	At      time.Time
	Fleet   wire.Snapshot
	Columns []boardColumn
	Slots   int                     // slots in use
	Needs   int                     // tasks waiting for a person's answer
	Reviews int                     // pull requests waiting for review
	Stages  map[fsm.IssueKey]string // the stage last reported by each worker
}

type boardColumn struct {
	column
	N     int
	Cards []timeline.Task
	More  int
}

func drawnBoard(ctx context.Context, s Source) (boardPart, error) {
	rows, count, err := s.Board(ctx, cardsShown)
	if err != nil {
		return boardPart{}, err
	}
	part := boardPart{At: time.Now(), Fleet: s.Fleet(ctx), Stages: map[fsm.IssueKey]string{}}
	part.Slots, part.Needs, part.Reviews = len(part.Fleet.Workers), count[fsm.Blocked.String()],
		count[fsm.InReview.String()]
	for _, w := range part.Fleet.Workers {
		part.Stages[fsm.IssueKey(w.Issue)] = w.Stage
	}
	for _, c := range columns {
		b := boardColumn{column: c}
		for _, s := range c.states {
			b.N += count[s.String()]
		}
		for _, t := range rows {
			if len(b.Cards) < cardsShown &&
				slices.ContainsFunc(c.states, func(s fsm.State) bool { return s.String() == t.State }) {
				b.Cards = append(b.Cards, t)
			}
		}
		b.More = b.N - len(b.Cards)
		part.Columns = append(part.Columns, b)
	}
	return part, nil
}

func (p *Page) showBoard(w http.ResponseWriter, r *http.Request) {
	p.show(w, r, "board", "Board", func(ctx context.Context, s Source) (any, error) { return drawnBoard(ctx, s) })
}

// streamBoard sends the board whenever the journal advances.
func (p *Page) streamBoard(w http.ResponseWriter, r *http.Request) {
	p.stream(w, r, "board", "", func(ctx context.Context, s Source) (any, error) { return drawnBoard(ctx, s) })
}
