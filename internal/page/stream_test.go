package page

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"retake/internal/fsm"
	"retake/internal/timeline"
)

// TestADrawingSaysHowOldItIs checks a shared drawing that lacks the latest change. The viewer gets the drawing's place,
// and requests a newer drawing. Without changes, a drawing is rendered once per beat for any number of viewers.
func TestADrawingSaysHowOldItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d drawing
		drawn, begun := 0, time.Now()
		first, second := timeline.Place{Seq: 1}, timeline.Place{Seq: 2}
		for _, c := range []struct {
			after time.Duration
			next  timeline.Place
			at    timeline.Place
			drawn int
		}{
			{0, first, first, 1},
			{0, second, first, 1},
			{drawEvery, second, second, 2},
			{3 * drawEvery, second, second, 2},
			{drawEvery + beat, second, second, 3},
		} {
			time.Sleep(c.after - time.Since(begun))
			if at, _, _ := d.get(c.next, func() ([]byte, error) { drawn++; return nil, nil }); at != c.at ||
				drawn != c.drawn {
				t.Errorf("after %v: at %v, drawn %d times; want %v, %d times", c.after, at, drawn, c.at, c.drawn)
			}
		}
	})
}

// counted counts the renderings of a task, and reports a change on demand.
type counted struct {
	*played
	stories atomic.Int64
	mu      sync.Mutex
	seq     uint64
	more    chan struct{}
}

func newCounted() *counted { return &counted{played: newPlayed(), seq: 1, more: make(chan struct{})} }

func (c *counted) happen() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seq++
	close(c.more)
	c.more = make(chan struct{})
}

func (c *counted) Task(ctx context.Context, k fsm.IssueKey, at time.Time) (timeline.Task, bool, error) {
	c.stories.Add(1)
	return c.played.Task(ctx, k, at)
}

func (c *counted) Next(ctx context.Context, after timeline.Place) (timeline.Place, error) {
	for {
		c.mu.Lock()
		now, more := timeline.Place{Seq: c.seq}, c.more
		c.mu.Unlock()
		if now.After(after) {
			return now, nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return after, context.Cause(ctx)
		}
	}
}

// recorded records the data sent to a browser until it is closed.
type recorded struct {
	mu     sync.Mutex
	header http.Header
	text   strings.Builder
}

func (w *recorded) Header() http.Header              { return w.header }
func (w *recorded) WriteHeader(int)                  {}
func (w *recorded) Flush()                           {}
func (w *recorded) SetReadDeadline(time.Time) error  { return nil }
func (w *recorded) SetWriteDeadline(time.Time) error { return nil }

func (w *recorded) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(b)
}

// sent returns all data sent so far.
func (w *recorded) sent() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

func (w *recorded) events(name string) int {
	return strings.Count(w.sent(), "event: "+name+"\n")
}

// looking serves a page to n browsers. Each reads one of its streams until it leaves or the stream ends.
func looking(t *testing.T, o Options, cookie string, path string,
	n int,
) (all []*recorded, leave func(), gone chan struct{}) {
	o.Token, o.Log = func() (string, error) { return token, nil }, zap.NewNop()
	if o.Open == nil {
		o.Open = nobody
	}
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	key := ""
	if cookie != "" {
		cookie, key = p.sessions.begin(cookie, cookieName)
		cookie = cookieName + "=" + cookie
	}
	ctx, cancel := context.WithCancel(t.Context())
	var browsers sync.WaitGroup
	request := func(method, path string) *http.Request {
		r := httptest.NewRequestWithContext(ctx, method, "http://localhost"+path, http.NoBody)
		r.Header.Set("Cookie", cookie)
		r.Header.Set(keyHeader, key)
		return r
	}
	for range n {
		w := &recorded{header: http.Header{}}
		all = append(all, w)
		browsers.Go(func() { p.ServeHTTP(w, request(http.MethodGet, path)) })
	}
	gone = make(chan struct{})
	go func() { browsers.Wait(); close(gone) }()
	t.Cleanup(func() { cancel(); <-gone })
	return all, func() { p.ServeHTTP(&recorded{header: http.Header{}}, request(http.MethodPost, "/signout")) }, gone
}

// TestATaskIsDrawnOnceForAll checks that a task is rendered once per change for any number of viewers, and that each
// receives it.
func TestATaskIsDrawnOnceForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newCounted()
		all, _, _ := looking(t, Options{Source: func() Source { return source }, Open: anyone}, "",
			"/tasks/acme/widgets/21/live", 50)
		synctest.Wait()
		for change := 1; change <= 3; change++ {
			if n := source.stories.Load(); n != int64(change) {
				t.Errorf("after %d changes the task was rendered %d times, for %d viewers", change, n, len(all))
			}
			time.Sleep(2 * drawEvery)
			source.happen()
			synctest.Wait()
		}
		for _, w := range all {
			if n := w.events("task"); n != 4 {
				t.Errorf("a browser got %d events, want 4", n)
			}
		}
	})
}

// TestStreamsEndWithTheSession checks that a stream ends after its browser signs out or its session expires.
func TestStreamsEndWithTheSession(t *testing.T) {
	for _, path := range []string{"/live", "/tasks/acme/widgets/21/live", "/tasks/acme/widgets/21/output"} {
		for what, end := range map[string]func(signOut func()) time.Duration{
			"signing out":       func(signOut func()) time.Duration { signOut(); return rightsEvery },
			"the session's end": func(func()) time.Duration { return sessionTime + rightsEvery },
		} {
			synctest.Test(t, func(t *testing.T) {
				all, signOut, gone := looking(t, Options{Source: func() Source { return newCounted() }}, "alice", path,
					1)
				time.Sleep(2 * rightsEvery)
				synctest.Wait()
				if all[0].events("over") > 0 || all[0].sent() == "" {
					t.Fatalf("%s: before anything happens it was sent %q", path, all[0].sent())
				}
				time.Sleep(end(signOut))
				synctest.Wait()
				select {
				case <-gone:
				default:
					t.Errorf("%s does not end after %s", path, what)
				}
				if all[0].events("over") != 1 {
					t.Errorf("%s lacks the event about %s", path, what)
				}
			})
		}
	}
}

// TestSeatsAreFair checks that no source can take all seats, and that a full page still serves a new source.
func TestSeatsAreFair(t *testing.T) {
	var p seats
	ended := map[string]int{}
	take := func(source string) (func(), bool) {
		return p.take(source, func(error) { ended[source]++ })
	}
	for range streamsEach {
		if _, ok := take("a"); !ok {
			t.Fatal("a source got fewer seats than its limit")
		}
	}
	if _, ok := take("a"); ok {
		t.Error("a source got more seats than its limit")
	}
	for range streamsAtOnce - streamsEach - 1 {
		take("b")
	}
	leave, _ := take("c")
	if p.n != streamsAtOnce || len(ended) > 0 {
		t.Fatalf("%d seats taken, ended %v", p.n, ended)
	}
	if _, ok := take("d"); !ok || ended["a"] != 1 || p.n != streamsAtOnce {
		t.Errorf("a new source at a full page: %v, ended %v, %d taken", ok, ended, p.n)
	}
	if _, ok := take("b"); ok {
		t.Error("a source replaced a stream of one with as many")
	}
	leave()
	leave()
	if p.n != streamsAtOnce-1 {
		t.Errorf("%d taken after one left", p.n)
	}
}

// TestStreamsOfOneSource checks that the page refuses the streams of one address above its limit.
func TestStreamsOfOneSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, _, gone := looking(t, Options{Source: func() Source { return newCounted() }, Open: anyone}, "", "/live",
			streamsEach+1)
		time.Sleep(2 * drawEvery)
		synctest.Wait()
		over := 0
		for _, w := range all {
			if w.events("board") == 0 {
				over++
			}
		}
		if over != 1 {
			t.Errorf("%d streams of one source were refused, want 1", over)
		}
		select {
		case <-gone:
			t.Error("all streams ended")
		default:
		}
	})
}
