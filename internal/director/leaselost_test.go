package director

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"retake/internal/bus"
	"retake/internal/container"
	"retake/internal/director/loop"
	"retake/internal/fsm"
)

// Who was stopped while it led, and has another leader behind it by now, wakes in the middle of something: it
// removes nothing, and writes over nothing.
func TestWhoLeadsNoMoreRemovesNothing(t *testing.T) {
	t.Parallel()
	s := newHarness(t, nil)
	s.runtime.play = nil
	s.config.Containers.Runtime = "process"
	d, err := open(t.Context(), s.options(), false)
	must(t, err)
	defer d.close()
	j := d.bus.Journal()
	batch := func() {
		_, err := j.Append(t.Context(), "w/"+loop.NewNonce(), j.Head().Seq, []byte("{}"))
		must(t, err)
	}
	state := func() savedState { return savedState{j.Head(), []byte("{}")} }
	sess := d.newSession()
	batch()
	sess.save(t.Context(), state())
	batch()
	sess.save(t.Context(), state())
	checkout := filepath.Join(d.sharedDir(), "tasks", "orphan22")
	must(t, os.MkdirAll(checkout, 0o700))

	must(t, os.MkdirAll(filepath.Join(d.sharedDir(), "tasks", "another2"), 0o700))
	sess.checkouts = []string{"orphan22"} // another director has begun the other one since

	d.term.Store(&term{lease: &bus.Lease{}}) // it has one, and its time is over
	batch()
	before := sess.saved
	if sess.save(t.Context(), state()); sess.saved != before {
		t.Error("a snapshot was saved")
	}
	sess.owner = loop.New(fsm.NewDriver(fsm.New(d.machineConfig(d.setup())), 3, "w"), j, s.log)
	if err := sess.sweep(t.Context(), sess.owner.Driver().Machine()); !errors.Is(err, loop.ErrLeaseLost) {
		t.Errorf("sweep: %v", err)
	}
	if _, err := os.Stat(checkout); err != nil {
		t.Errorf("a checkout was removed: %v", err)
	}
	d.term.Store(nil)
	if err := sess.sweep(t.Context(), sess.owner.Driver().Machine()); err != nil {
		t.Error(err)
	}
	if left, err := sess.workspace.Found(); err != nil || !slices.Equal(left, []string{"another2"}) {
		t.Errorf("left: %v, %v", left, err)
	}
}

// lateRuntime is an engine that answers when something else has happened.
type lateRuntime struct {
	container.Runtime
	before func()
}

func (l lateRuntime) List(ctx context.Context) ([]container.Status, error) {
	l.before()
	return l.Runtime.List(ctx)
}

// Who was suspended together with its machine finds another one's decisions in the journal before it knows that
// its term is over: it stands by again.
func TestWhoseTermIsOverStandsByAgain(t *testing.T) {
	t.Parallel()
	s := newHarness(t, nil)
	s.runtime.play = nil
	s.config.Containers.Runtime = "process"
	d, err := open(t.Context(), s.options(), false)
	must(t, err)
	defer d.close()
	over := &term{}
	d.runtime = lateRuntime{d.runtime, func() {
		over.lease = &bus.Lease{} // its time is over
		j := d.bus.Journal()
		_, err := j.Append(t.Context(), "another-"+loop.NewNonce(), j.Head().Seq, []byte("{}"))
		must(t, err)
	}}
	over.ctx, over.end = context.WithCancelCause(t.Context())
	over.clock.Store(loop.NewClock(time.Now()))
	d.term.Store(over)
	err = d.lead(over)
	over.release()
	if !errors.Is(err, loop.ErrAnotherDirector) || !over.expired() {
		t.Errorf("its term is over: %v, and it ended with: %v", over.expired(), err)
	}
}

func TestNothingIsWrittenToGitHubOutsideOfTheLease(t *testing.T) {
	var sent []string
	next := roundTrip(func(r *http.Request) (*http.Response, error) {
		sent = append(sent, r.Method)
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	})
	var current atomic.Pointer[term]
	send := func(method string) error {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://github.invalid/", strings.NewReader(""))
		must(t, err)
		answer, err := leaseTransport{next, &current}.RoundTrip(r)
		if err == nil {
			_ = answer.Body.Close()
		}
		return err
	}
	must(t, send(http.MethodPost)) // nobody else can lead
	current.Store(&term{lease: &bus.Lease{}})
	must(t, send(http.MethodGet))
	if err := send(http.MethodPost); !errors.Is(err, loop.ErrLeaseLost) {
		t.Errorf("a request that writes: %v", err)
	}
	if !slices.Equal(sent, []string{http.MethodPost, http.MethodGet}) {
		t.Errorf("sent: %q", sent)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
