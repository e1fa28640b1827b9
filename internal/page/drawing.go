package page

import (
	"bytes"
	"encoding/json"
	"sync"
	"time"

	"retake/internal/fsm"
	"retake/internal/story"
)

// drawEvery paces what browsers are sent.
const drawEvery = time.Second

// beat is how often a browser hears something although nothing has happened: times on the page go on, and who
// is gone is noticed.
const beat = 10 * time.Second

// drawings are the parts that somebody looks at now: each is drawn once for all of them.
type drawings struct {
	mu  sync.Mutex
	all map[fsm.IssueKey]*drawing // by the folded key; empty: the board
}

// drawing is one part: once per change, at most once in drawEvery, and once in beat if nothing changes.
type drawing struct {
	lookers int // drawings.mu's

	mu    sync.Mutex
	at    time.Time
	place story.Place // in the journal, that the drawing has at least
	text  []byte
	err   error
}

// of returns the drawing of a task, or of the board. leave forgets it with the last who looks.
func (d *drawings) of(k fsm.IssueKey) (one *drawing, leave func()) {
	k = k.Fold()
	d.mu.Lock()
	defer d.mu.Unlock()
	one = d.all[k]
	if one == nil {
		one = &drawing{}
		d.all[k] = one
	}
	one.lookers++
	return one, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if one.lookers--; one.lookers == 0 {
			delete(d.all, k)
		}
	}
}

// get returns the drawing, and what it has. next is where the journal is now.
func (d *drawing) get(next story.Place, draw func() ([]byte, error)) (story.Place, []byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.fresh(next) {
		d.text, d.err = draw()
		d.at, d.place = time.Now(), next
	}
	return d.place, d.text, d.err
}

func (d *drawing) fresh(next story.Place) bool {
	age := time.Since(d.at)
	return !d.at.IsZero() && (age < drawEvery || age < beat && d.err == nil && !next.After(d.place))
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
