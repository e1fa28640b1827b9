package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/director/operator"
)

// refusalIsShown checks that the commands show why the changed configuration was refused.
func refusalIsShown(t *testing.T, file, problem string) {
	t.Helper()
	for _, c := range []struct {
		command, says string
		exit          int
	}{
		{"director reload", problem, 1},
		{"director status", problem, 0},
		{"director health", "was rejected (1 problem)", 0},
	} {
		out, exit := shell(t, t.TempDir(), c.command+" -c "+file)
		if exit != c.exit || !strings.Contains(out, c.says) {
			t.Errorf("%s: exit %d, want %d, saying %q\n%s", c.command, exit, c.exit, c.says, out)
		}
	}
}

// TestHangupNeverKills sends real signals to a real director with a real file. The director rejects an invalid file,
// and status commands explain why.
func TestHangupNeverKills(t *testing.T) {
	d, _, w := newTwins(t, true, untilTold)
	key := w.issue("Add a frobnicator")
	file := filepath.Join(d.dir, "c.toml")
	text, err := os.ReadFile(file)
	check(t, err)
	const poll = "poll_seconds = 1\n"
	write := func(with string) { // write elsewhere and rename, so that a reader never sees half a file
		text := strings.Replace(string(text), poll, with, 1)
		check(t, os.WriteFile(file+"~", []byte(text), 0o600))
		check(t, os.Rename(file+"~", file))
	}
	ask := func() wire.SnapshotConfig {
		if s, ok := d.ask(); ok && s.Config != nil {
			return *s.Config
		}
		return wire.SnapshotConfig{}
	}
	d.start()
	hangup := func() { check(t, d.cmd.Process.Signal(syscall.SIGHUP)) }
	wait(t, "it leads", d.leads)
	wait(t, "a worker runs", func() bool { return begun(filepath.Join(w.dir, "shared")) == 1 })
	before := ask()

	write("poll_seconds = 7\n")
	wait(t, "the change is noticed", func() bool { return ask().Digest != before.Digest })
	hangup()
	wait(t, "it is read once more", func() bool { return ask().By == "SIGHUP" })
	read := ask()

	write("poll_seconds = \"often\"\n")
	wait(t, "it is refused", func() bool { return len(ask().Problems) == 1 })
	wrong := ": github.poll_seconds: got "
	if c := ask(); c.Digest != read.Digest || !strings.Contains(c.Problems[0], wrong) {
		t.Errorf("the director is %+v, and was %+v", c, read)
	}
	refusalIsShown(t, file, wrong)

	write("poll_seconds = 7\nlabels = { task = \"other\" }\n")
	wait(t, "it is read", func() bool { return len(ask().Restart) == 1 })
	out, exit := shell(t, t.TempDir(), "director reload -c "+file)
	if want := "no immediate changes\nneeds a restart: github.labels.task\n"; exit != 0 ||
		out != want {
		t.Errorf("exit %d, %q, want %q", exit, out, want)
	}
	for range 20 {
		hangup()
		time.Sleep(5 * time.Millisecond)
	}
	if h, err := operator.AskHealth(t.Context(), d.data); err != nil || !h.OK {
		t.Errorf("after many hangups: %+v, %v", h, err)
	}
	w.goOn()
	w.handedIn(key, 1)
	hangup()
	d.signal(syscall.SIGTERM)
}

func TestReloadCommand(t *testing.T) {
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	for _, x := range []struct {
		answer operator.Reading
		exit   int
		says   string
	}{
		{operator.Reading{Changed: []string{"a.b", "c.d"}}, 0, "changed: a.b, c.d\n"},
		{
			operator.Reading{Changed: []string{"a.b"}, Restart: []string{"e.f"}, Pending: true},
			0,
			"changed: a.b\nthe new values take effect once they are in the journal: see director " +
				"health\nneeds a restart: e.f\n",
		},
		{operator.Reading{}, 0, "no immediate changes\n"},
		{
			operator.Reading{Problems: []string{"c.toml:1:1: no", "c.toml:2:2: nor this"}, Since: at},
			1,
			"rejected, so the configuration read at 2026-11-21T10:00:00Z stays in effect:\n" +
				"c.toml:1:1: no\nc.toml:2:2: " +
				"nor this\n",
		},
	} {
		dir := answering(t, operator.Health{}, wire.Snapshot{}, func(mux *http.ServeMux) {
			mux.HandleFunc("POST /reload",
				func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(x.answer) })
		})
		if out, exit := shell(t, t.TempDir(), "touch c.toml; director reload -c c.toml --set director.data_dir="+
			dir); exit != x.exit || out != x.says {
			t.Errorf("exit %d, want %d, %q, want %q", exit, x.exit, out, x.says)
		}
	}
	if out, exit := shell(t, t.TempDir(), "echo x = >retake.toml; director status"); exit != 2 ||
		!strings.HasPrefix(out, "retake.toml:1:") {
		t.Errorf("a broken file without a director: exit %d, %s", exit, out)
	}
}
