package page

import (
	"bytes"
	"encoding/json"
	"sync"
	"time"

	"retake/internal/fsm"
	"retake/internal/timeline"
)

// drawEvery is the minimum interval between two renderings of a part, and between two events to a browser.
const drawEvery = time.Second

// beat is the maximum interval between two events on a stream. Without a change, the event only updates the times
// on the page and detects browsers that have disconnected.
const beat = 10 * time.Second

// drawings holds the parts that browsers watch. Each part is rendered once for all viewers.
type drawings struct {
	mu  sync.Mutex
	all map[fsm.IssueKey]*drawing // by the folded issue key; the board has the empty key
}

// drawing is one rendered part. It is rendered at most once per drawEvery, and once per beat if nothing
// changes.
type drawing struct {
	lookers int // guarded by drawings.mu

	mu    sync.Mutex
	at    time.Time
	place timeline.Place // the drawing covers the journal at least up to this place
	text  []byte
	err   error
}

// of returns the drawing of a task, or of the board for the empty key. Each viewer must call leave once. The last
// call drops the drawing.
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

// get returns the drawing and the place in the journal up to which it is current. next is the newest place. While one
// caller renders, the others wait for its result.
func (d *drawing) get(next timeline.Place, draw func() ([]byte, error)) (timeline.Place, []byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.fresh(next) {
		d.text, d.err = draw()
		d.at, d.place = time.Now(), next
	}
	return d.place, d.text, d.err
}

func (d *drawing) fresh(next timeline.Place) bool {
	age := time.Since(d.at)
	return !d.at.IsZero() && (age < drawEvery || age < beat && d.err == nil && !next.After(d.place))
}

// draw renders a template and returns it as a JSON string, which the browser inserts.
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
	out.SetEscapeHTML(false) // the JSON is not embedded in HTML, and escaping would make it a third longer
	if err := out.Encode(b.String()); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}
