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
	"retake/internal/timeline"
)

// rightsEvery is the interval at which a stream checks that its browser still has read access.
const rightsEvery = 5 * time.Second

// stream sends updates of a task, or of the board, until the browser disconnects, the director stops or the browser
// loses access. A drawing may be older than the journal, so the next wait starts at the drawing's place and the browser
// soon receives the newer changes. Changes within one drawEvery become one event.
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
	var at timeline.Place
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

// news waits at most one beat for a journal event after at. It returns the part to send, or a "problem" event with the
// error.
func (p *Page) news(ctx context.Context, at timeline.Place, name string, shown *drawing,
	part func(context.Context, Source) (any, error),
) (next timeline.Place, event string, text []byte) {
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

// errOver ends the stream of a browser that lost access.
const errOver = problem("you have signed out, or your session has ended: sign in to see more")

// events starts a stream of server-sent events. If there are too many streams, it answers 503 and returns a nil
// stream. The context ends when the browser disconnects, and within rightsEvery after the browser loses access. The
// caller must call leave, which waits for the goroutine that watches the access.
func (p *Page) events(w http.ResponseWriter, r *http.Request) (out *eventStream, ctx context.Context, leave func()) {
	ctx, end := context.WithCancelCause(r.Context())
	free, ok := p.seats.take(p.sessions.sourceOf(r), end)
	if !ok {
		end(nil)
		http.Error(w, "too many viewers; the page still shows its last state", http.StatusServiceUnavailable)
		return nil, nil, nil
	}
	w.Header().Set("Content-Type", "text/event-stream")
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
		free()
	}
}

// eventStream writes server-sent events: https://html.spec.whatwg.org/multipage/server-sent-events.html
type eventStream struct {
	w http.ResponseWriter
	c *http.ResponseController
}

// sendTime limits the time to write one event.
const sendTime = 10 * time.Second

// send writes one event. text must not contain a line break.
func (e *eventStream) send(event string, text []byte) error {
	if err := e.c.SetWriteDeadline(time.Now().Add(sendTime)); err != nil {
		return err
	}
	if err := e.c.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	_, err := io.WriteString(e.w, "event: "+event+"\ndata: ")
	if err == nil {
		_, err = e.w.Write(text) // written separately, because many browsers share this text
	}
	if err == nil {
		_, err = io.WriteString(e.w, "\n\n")
	}
	return errors.Join(err, e.c.Flush())
}

// sendOver tells the browser that it lost its access or its seat, if the stream ended for that reason.
func (e *eventStream) sendOver(ctx context.Context) {
	if err := farewell(ctx); err != nil {
		text, _ := json.Marshal(err.Error())
		_ = e.send("over", text)
	}
}
