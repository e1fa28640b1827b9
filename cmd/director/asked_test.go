package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/director/operator"
	"retake/internal/timeline"
)

// An invalid file does not prevent a query of the running director. Without a director, the answer is the file's
// problem.
func TestAskingWithABrokenFile(t *testing.T) {
	told := timeline.Task{Issue: "a/b#1", State: "Blocked", Next: "Say which.", Since: time.Now()}
	dir := answering(t, operator.Health{OK: true, RunID: "run_1"},
		wire.Snapshot{Cooldowns: []wire.SnapshotCooldown{{Resource: "model.x", Until: wire.At(time.Now())}}},
		func(mux *http.ServeMux) {
			reply := func(path string, body any) {
				mux.HandleFunc(path, func(w http.ResponseWriter,
					_ *http.Request,
				) {
					_ = json.NewEncoder(w).Encode(body)
				})
			}
			reply("GET /tasks/a/b/1/story", told)
			reply("GET /tasks/a/b/1/output", map[string]any{
				"at": wire.At(time.Now()), "attempt_id": "x-1",
				"attempt": 1,
				"stage":   "CODE", "stream": "stdout", "text": "hello",
			})
			reply("GET /events", timeline.Event{At: time.Now(), Issue: "a/b#1", Text: "Queued"})
			reply("POST /tasks/a/b/1/commands", operator.TaskAnswer{
				Issue: "a/b#1", Command: "budget", By: "me",
				State: "Backoff",
			})
			reply("PUT /tasks/a/b/1", operator.TaskAnswer{Issue: "a/b#1", Command: "add", By: "me"})
			reply("POST /pause", operator.Health{RunID: "run_1"})
		})
	for command, says := range map[string]string{
		"tasks": "no tasks", "explain a/b#1": "Say which.", "logs a/b#1": "hello",
		"events --issue a/b#1": "Queued", "grant a/b#1 +2": "a/b#1: grant by me",
		"add a/b#1": "the next poll will find it", "pause": "run_1", "cooldown list": "model.x",
		"cooldown lift --all": "model.x is open again", "health": "healthy",
	} {
		broken := "echo 'x = ' >c.toml; director " + command + " -c c.toml --set director.data_dir="
		if out, exit := shell(t, t.TempDir(), broken+dir); exit != 0 || !strings.Contains(out, says) {
			t.Errorf("%s: exit %d, want %q: %s", command, exit, says, out)
		}
		if out, exit := shell(t, t.TempDir(), broken+"$PWD"); exit != 2 || !strings.HasPrefix(out, "c.toml:1:") {
			t.Errorf("%s without a director: exit %d: %s", command, exit, out)
		}
	}
	if out, exit := shell(t, t.TempDir(), "echo 'x = ' >c.toml; director explain 1 -c c.toml --set director.data_dir="+
		dir); exit != 2 || !strings.HasPrefix(out, "c.toml:1:") {
		t.Errorf("a number alone needs the file: exit %d: %s", exit, out)
	}
}

// Refusals on the command line suggest commands instead of comments.
func TestRefusalsSpeakTheCommandLine(t *testing.T) {
	dir := answering(t, operator.Health{}, wire.Snapshot{}, func(mux *http.ServeMux) {
		mux.HandleFunc("POST /tasks/a/b/1/commands", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusConflict)
			_ = json.NewEncoder(w).Encode(operator.TaskAnswer{
				Issue:   "a/b#1",
				Problem: "attempt 1 is under way; `/agent stop` ends it, `/agent fix <text>` mends it",
			})
		})
	})
	out, exit := shell(t, t.TempDir(), "touch c.toml; director retry a/b#1 -c c.toml --set director.data_dir="+dir)
	if want := "attempt 1 is under way; `director stop a/b#1` ends it, `director fix a/b#1 --text " +
		"'<text>'` mends it\n"; exit != 1 || out != want {
		t.Errorf("exit %d, %q, want %q", exit, out, want)
	}
}

// An empty result is stated in words, and exits with 1.
func TestNothingIsSaid(t *testing.T) {
	known := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	dir := answering(t, operator.Health{}, wire.Snapshot{}, func(mux *http.ServeMux) {
		mux.HandleFunc("GET /tasks/a/b/1/story", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("at") != "" {
				w.WriteHeader(http.StatusNotFound)
				_ = json.NewEncoder(w).Encode(map[string]string{"problem": "nothing"})
				return
			}
			_ = json.NewEncoder(w).Encode(timeline.Task{Issue: "a/b#1", Events: []timeline.Event{{At: known}}})
		})
	})
	journal := demoJournal(t)
	for _, c := range []struct {
		command string
		exit    int
		says    string
	}{
		{
			"director explain a/b#1 --at 2026-11-01 --set director.data_dir=" + dir, 1,
			"a/b#1 was unknown at that time: its history begins at 2026-11-21T10:00:00Z\n",
		},
		{
			"director explain a/b#1 --at 2999-01-01 --set director.data_dir=" + dir, 2,
			"2999-01-01T00:00:00Z is in the future",
		},
		{"director events --set director.data_dir=$PWD/none", 1, "the journal in "},
		{"director replay --set director.data_dir=$PWD/none", 1, "the journal in "},
		{
			"director replay demo/widgets#99 --journal " + journal + "/demo.jsonl.zst", 1,
			"the journal has no record of demo/widgets#99",
		},
	} {
		if out, exit := shell(t, t.TempDir(), "touch c.toml; "+c.command+" -c c.toml"); exit != c.exit ||
			!strings.Contains(out, c.says) {
			t.Errorf("%s: exit %d, want %d, saying %q: %s", c.command, exit, c.exit, c.says, out)
		}
	}
}

// The worker's own lines appear as their message.
func TestTheWorkersOwnLines(t *testing.T) {
	for text, want := range map[string]string{
		`retake-worker: {"level":"info","msg":"running go","stage":"CODE"}`: "retake-worker: running go",
		`retake-worker: {"msg":"report sent","reason":"build_failed","error":"x: y"}`: "retake-worker: report sent · " +
			"build_failed · x: y",
		`retake-worker: {broken`:  `retake-worker: {broken`,
		`retake-worker: {"a":1}`:  `retake-worker: {"a":1}`,
		`{"msg":"of an agent"}`:   `{"msg":"of an agent"}`,
		"retake-worker: in words": "retake-worker: in words",
	} {
		if got := message(text); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}
