package operator

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"retake/internal/fsm"
	"retake/internal/output"
)

// A director that does not answer in time is not treated as absent, for any request. Otherwise the client would read
// its journal while it runs.
func TestADirectorThatIsSlowIsThere(t *testing.T) {
	dir := t.TempDir()
	door, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, SocketName))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = door.Close() })
	const issue = "acme/widgets#1"
	for what, ask := range map[string]func(ctx context.Context, dir string) error{
		"health": func(ctx context.Context, dir string) error { _, err := AskHealth(ctx, dir); return err },
		"pause": func(ctx context.Context, dir string) error {
			_,
				err := SendCommand(ctx, dir, fsm.Pause)
			return err
		},
		"tasks": func(ctx context.Context, dir string) error { _, err := AskTasks(ctx, dir); return err },
		"story": func(ctx context.Context, dir string) error {
			_, err := AskTask(ctx, dir, issue, time.Time{})
			return err
		},
		"journal": func(ctx context.Context, dir string) error { return AskJournal(ctx, dir, nil) },
		"commands": func(ctx context.Context, dir string) error {
			_, err := CommandTask(ctx, dir, issue, TaskCommand{})
			return err
		},
		"output": func(ctx context.Context, dir string) (err error) {
			for _, err = range AskOutput(ctx, dir, issue, output.Filter{}) {
				_ = err
			}
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if err := ask(ctx, dir); err == nil || errors.Is(err, ErrNotThere) {
			t.Errorf("%s: %v; want an error that is not ErrNotThere", what, err)
		}
		cancel()
		if err := ask(t.Context(), t.TempDir()); !errors.Is(err, ErrNotThere) {
			t.Errorf("%s where no director is: %v, want ErrNotThere", what, err)
		}
	}
}

// An invalid answer yields an error that distinguishes a refusal, a temporary failure and an unknown request. A
// refusal repeats the director's text.
func TestWhatIsRefusedIsSaid(t *testing.T) {
	for says, c := range map[string]struct {
		answer func(w http.ResponseWriter)
		now    bool // the refusal is final, so the error is not ErrNotNow
	}{
		"the journal is read again": {func(w http.ResponseWriter) {
			Respond(w, http.StatusServiceUnavailable, Health{Problem: "the journal is read again"})
		}, false},
		"stands by": {func(w http.ResponseWriter) {
			Respond(w, http.StatusConflict,
				Refusal{"this director stands by"})
		}, false},
		"older than this program": {func(w http.ResponseWriter) {
			http.Error(w, "404 page not found",
				http.StatusNotFound)
		}, true},
		"want a time": {func(w http.ResponseWriter) {
			Respond(w, http.StatusBadRequest,
				Refusal{"at: want a time"})
		}, true},
		"director: the journal has no record of the issue": {func(w http.ResponseWriter) {
			Respond(w, http.StatusNotFound,
				Refusal{"the journal has no record"})
		}, true},
	} {
		dir := answering(t, c.answer)
		_, err := AskTask(t.Context(), dir, "acme/widgets#1", time.Time{})
		if err == nil || !strings.Contains(err.Error(), says) || errors.Is(err, ErrNotThere) ||
			errors.Is(err, ErrNotNow) == c.now {
			t.Errorf("%v; want %q", err, says)
		}
		if is := strings.Contains(says, "no record of the issue"); errors.Is(err, ErrNoTask) != is {
			t.Errorf("%v is ErrNoTask: %v, want %v", err, !is, is)
		}
		if _, err := SendCommand(t.Context(), dir, fsm.Pause); err == nil {
			t.Errorf("no error for a refused pause (%s)", says)
		}
	}
}

// answering returns a director that gives the same answer to every request.
func answering(t *testing.T, answer func(w http.ResponseWriter)) (dataDir string) {
	t.Helper()
	dir := t.TempDir()
	door, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, SocketName))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w) }),
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(door)
	}()
	t.Cleanup(func() {
		_ = server.Shutdown(context.Background())
		<-served
	})
	return dir
}
