package page

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"retake/internal/fsm"
	"retake/internal/story"
)

// rightsEvery is how soon who may look no more is told of nothing more.
const rightsEvery = 5 * time.Second

// stream keeps a browser informed of a task, or of the board, until it goes, the director does, or it may look
// no more. The drawing may be older than the journal; it says where it is, so that the browser soon gets the
// rest.
func (p *Page) stream(w http.ResponseWriter, r *http.Request, name string, k fsm.IssueKey,
	part func(context.Context, Source) (any, error),
) {
	out, ctx, leave := p.events(w, r)
	if out == nil {
		return
	}
	defer leave()
	shown, forget := p.drawings.of(k)
	defer forget()
	var at story.Place
	for ctx.Err() == nil {
		began := time.Now()
		next, event, text := p.news(ctx, at, name, shown, part)
		if ctx.Err() == nil && out.send(event, text) != nil {
			return
		}
		at = next
		select {
		case <-time.After(drawEvery - min(drawEvery, time.Since(began))):
		case <-ctx.Done():
		}
	}
	out.sendOver(ctx)
}

// news waits for something to happen after a place, a beat at most, and returns what a browser is told then:
// the part, or what is wrong.
func (p *Page) news(ctx context.Context, at story.Place, name string, shown *drawing,
	part func(context.Context, Source) (any, error),
) (next story.Place, event string, text []byte) {
	next = at
	s, err := p.source()
	if err == nil {
		waited, cancel := context.WithTimeout(ctx, beat)
		if news, err := s.Next(waited, at); err == nil {
			next = news
		}
		cancel()
		next, text, err = shown.get(next, func() ([]byte, error) {
			return p.draw(name+"-live", func() (any, error) { return part(context.WithoutCancel(ctx), s) })
		})
	}
	if err != nil {
		text, _ := json.Marshal(err.Error())
		return at, "problem", text
	}
	return next, name, text
}

// errOver is why a stream ends that its browser may not have any more.
var errOver = errors.New("you have signed out, or your session has ended: sign in to see more")

// events begins a stream of server-sent events; nil: there are too many, which the browser has been told. The
// context ends when the browser leaves, and at most rightsEvery after it may not look any more.
func (p *Page) events(w http.ResponseWriter, r *http.Request) (out *eventStream, ctx context.Context, leave func()) {
	select {
	case p.streams <- struct{}{}:
	default:
		http.Error(w, "too many look at this page; it still shows what it has", http.StatusServiceUnavailable)
		return nil, nil, nil
	}
	w.Header().Set("Content-Type", "text/event-stream")
	ctx, end := context.WithCancelCause(r.Context())
	var watch sync.WaitGroup
	watch.Go(func() {
		again := time.NewTicker(rightsEvery)
		defer again.Stop()
		for {
			select {
			case <-again.C:
				if !p.maySee(r) {
					end(errOver)
				}
			case <-ctx.Done():
				return
			}
		}
	})
	return &eventStream{w, http.NewResponseController(w)}, ctx, func() {
		end(nil)
		watch.Wait()
		<-p.streams
	}
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

// sendOver tells the browser, if its stream has ended for that, that it may not look any more.
func (e *eventStream) sendOver(ctx context.Context) {
	if errors.Is(context.Cause(ctx), errOver) {
		text, _ := json.Marshal(errOver.Error())
		_ = e.send("over", text)
	}
}
