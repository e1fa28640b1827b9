package page

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/fsm"
	"retake/internal/story"
)

// column is one column of the board.
type column struct {
	Name, About string
	states      []fsm.State
}

// columns is the table of columns: what needs a person first, then in the order of a task's usual course.
var columns = []column{
	{"Needs you", "a person was asked", []fsm.State{fsm.Blocked}},
	{"Queued", "waits for a worker", []fsm.State{fsm.Queued, fsm.Claiming}},
	{"Working", "an attempt is under way", []fsm.State{fsm.Starting, fsm.Running, fsm.Suspect, fsm.Stopping}},
	{"Waiting", "for the next attempt", []fsm.State{fsm.Backoff, fsm.Parked}},
	{"In review", "a pull request", []fsm.State{fsm.Delivering, fsm.InReview}},
	{"Over", "done, or given up", []fsm.State{fsm.Done, fsm.Released}},
}

// cardsShown bounds the cards of a column; the others are counted.
const cardsShown = 40

// boardPart is the board and the fleet above it.
type boardPart struct {
	At      time.Time
	Fleet   wire.Snapshot
	Columns []boardColumn
	Slots   int                     // that are taken
	Stages  map[fsm.IssueKey]string // in which workers were last heard
}

type boardColumn struct {
	column
	N     int
	Cards []story.Story
	More  int
}

func drawnBoard(ctx context.Context, s Source) (boardPart, error) {
	rows, count, err := s.Board(ctx, cardsShown)
	if err != nil {
		return boardPart{}, err
	}
	part := boardPart{At: time.Now(), Fleet: s.Fleet(ctx), Stages: map[fsm.IssueKey]string{}}
	part.Slots = len(part.Fleet.Workers)
	for _, w := range part.Fleet.Workers {
		part.Stages[fsm.IssueKey(w.Issue)] = w.Stage
	}
	for _, c := range columns {
		b := boardColumn{column: c}
		for _, s := range c.states {
			b.N += count[s.String()]
		}
		for _, t := range rows {
			if len(b.Cards) < cardsShown && slices.ContainsFunc(c.states, func(s fsm.State) bool { return s.String() == t.State }) {
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

// drawing is a part that many look at, drawn at most once in drawEvery.
type drawing struct {
	mu    sync.Mutex
	at    time.Time
	place story.Place // in the journal, that the drawing has at least
	text  []byte
	err   error
}

// drawEvery paces what browsers are sent.
const drawEvery = time.Second

// get returns the drawing, and what it has. One that is older than drawEvery is drawn anew; next is where the journal is now.
func (d *drawing) get(next story.Place, draw func() ([]byte, error)) (story.Place, []byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.at.IsZero() || time.Since(d.at) >= drawEvery {
		d.text, d.err = draw()
		d.at, d.place = time.Now(), next
	}
	return d.place, d.text, d.err
}

// streamBoard sends the board whenever something has happened.
func (p *Page) streamBoard(w http.ResponseWriter, r *http.Request) {
	p.stream(w, r, "board", func(ctx context.Context, s Source, next story.Place) (story.Place, []byte, error) {
		return p.board.get(next, func() ([]byte, error) {
			return p.draw("board-live", func() (any, error) { return drawnBoard(context.WithoutCancel(ctx), s) })
		})
	})
}

// draw is one template as JSON text, for a browser to put in.
func (p *Page) draw(name string, part func() (any, error)) ([]byte, error) {
	data, err := part()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := p.templates.ExecuteTemplate(&b, name, data); err != nil {
		return nil, err
	}
	var text bytes.Buffer
	out := json.NewEncoder(&text)
	out.SetEscapeHTML(false) // it is no part of an HTML document, and a third longer with that
	if err := out.Encode(b.String()); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

// beat is how often a browser hears something although nothing has happened: times on the page go on, and who is gone is noticed.
const beat = 10 * time.Second

// stream keeps a browser informed until it goes, or the director does. What draw returns may be older than next, where the journal is; it says where the part
// is, so that the browser soon gets the rest.
func (p *Page) stream(w http.ResponseWriter, r *http.Request, event string, draw func(ctx context.Context, s Source, next story.Place) (story.Place, []byte, error)) {
	out, leave := p.events(w)
	if out == nil {
		return
	}
	defer leave()
	ctx := r.Context()
	var at story.Place
	for ctx.Err() == nil {
		began := time.Now()
		s, err := p.source()
		if err == nil {
			next := at
			waited, cancel := context.WithTimeout(ctx, beat)
			if news, err := s.Next(waited, at); err == nil {
				next = news
			}
			cancel()
			var text []byte
			if at, text, err = draw(ctx, s, next); err == nil && out.send(event, text) != nil {
				return
			}
		}
		if err != nil {
			text, _ := json.Marshal(err.Error())
			if out.send("problem", text) != nil {
				return
			}
		}
		select {
		case <-time.After(drawEvery - min(drawEvery, time.Since(began))):
		case <-ctx.Done():
		}
	}
}

// events begins a stream of server-sent events; nil: there are too many, which the browser has been told.
func (p *Page) events(w http.ResponseWriter) (*eventStream, func()) {
	select {
	case p.streams <- struct{}{}:
	default:
		http.Error(w, "too many look at this page; it still shows what it has", http.StatusServiceUnavailable)
		return nil, nil
	}
	w.Header().Set("Content-Type", "text/event-stream")
	return &eventStream{w, http.NewResponseController(w)}, func() { <-p.streams }
}

// eventStream writes server-sent events: https://html.spec.whatwg.org/multipage/server-sent-events.html
type eventStream struct {
	w http.ResponseWriter
	c *http.ResponseController
}

// sendTime is how long a browser may take for one event.
const sendTime = 10 * time.Second

// send writes one event, whose text has no line break.
func (e *eventStream) send(event string, text []byte) error {
	if err := e.c.SetWriteDeadline(time.Now().Add(sendTime)); err != nil {
		return err
	}
	if err := e.c.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	_, err := io.WriteString(e.w, "event: "+event+"\ndata: ")
	if err == nil {
		_, err = e.w.Write(text) // by itself: many are sent the same
	}
	if err == nil {
		_, err = io.WriteString(e.w, "\n\n")
	}
	return errors.Join(err, e.c.Flush())
}
