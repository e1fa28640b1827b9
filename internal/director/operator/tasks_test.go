package operator

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// listening returns a director with scripted answers.
func listening(t *testing.T, answer func(try int, w http.ResponseWriter, c TaskCommand)) (dataDir string) {
	t.Helper()
	dir := t.TempDir()
	door, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, SocketName))
	if err != nil {
		t.Fatal(err)
	}
	try := 0
	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var c TaskCommand
			if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
				t.Error(err)
			}
			try++
			answer(try, w, c)
		}),
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

// The client waits out a lost answer, a restarting director and a running effect, with the same ID each time.
func TestCommandIsRepeatedUntilItIsAnswered(t *testing.T) {
	ids := map[string]int{}
	dir := listening(t, func(try int, w http.ResponseWriter, c TaskCommand) {
		ids[c.ID]++
		switch try {
		case 1:
			panic(http.ErrAbortHandler) // the answer is lost
		case 2:
			Respond(w, http.StatusServiceUnavailable, Health{Problem: "the journal is read again"})
		case 3:
			Respond(w, http.StatusConflict, TaskAnswer{Problem: "an effect is at work", Busy: true})
		default:
			Respond(w, http.StatusOK, TaskAnswer{Issue: "acme/widgets#1", State: "Backoff"})
		}
	})
	a, err := CommandTask(t.Context(), dir, "acme/widgets#1", TaskCommand{Command: "retry"})
	if err != nil || a.State != "Backoff" || a.Problem != "" {
		t.Errorf("%+v, %v", a, err)
	}
	for id, n := range ids {
		if len(ids) != 1 || n != 4 || !RequestForm.MatchString(id) {
			t.Errorf("ids %v, want the same one four times", ids)
		}
	}
}

// The client does not repeat a request after a final answer, such as a refusal, an invalid command, a director
// without commands, or an absent director.
func TestCommandIsNotRepeatedAfterAnAnswer(t *testing.T) {
	for says, answer := range map[string]func(w http.ResponseWriter){
		"attempt 1 is under way": func(w http.ResponseWriter) {
			Respond(w, http.StatusConflict, TaskAnswer{Problem: "attempt 1 is under way"})
		},
		"the director has no task": func(w http.ResponseWriter) {
			Respond(w, http.StatusNotFound, TaskAnswer{Problem: "the director has no task"})
		},
		"\"x\" is not a command": func(w http.ResponseWriter) {
			Respond(w, http.StatusBadRequest, TaskAnswer{Problem: `"x" is not a command`})
		},
		"older than this program": func(w http.ResponseWriter) {
			http.Error(w, "404 page not found",
				http.StatusNotFound)
		},
		"ask the leader, on": func(w http.ResponseWriter) {
			Respond(w, http.StatusConflict,
				Refusal{"ask the leader, on b"})
		},
	} {
		tries := 0
		dir := listening(t, func(try int, w http.ResponseWriter, _ TaskCommand) { tries = try; answer(w) })
		a, err := CommandTask(t.Context(), dir, "acme/widgets#1", TaskCommand{Command: "retry"})
		if err != nil {
			a.Problem = err.Error()
		}
		if !strings.Contains(a.Problem, says) || tries != 1 {
			t.Errorf("%d tries, %+v, %v; want %q at once", tries, a, err, says)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if _, err := OfferIssue(t.Context(), t.TempDir(), "acme/widgets#1", "", false); !errors.Is(err, ErrNotThere) ||
			time.Since(began) > 0 {
			t.Errorf("without a director: %v, after %s", err, time.Since(began))
		}
	})
}
