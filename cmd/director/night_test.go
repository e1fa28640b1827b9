package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"retake/internal/bus/chain"
	"retake/internal/director/operator"
)

// aloneConfig configures an embedded bus and one stage, a shell line.
const aloneConfig = `[director]
interval_seconds = 1
[agent_bus]
listen_port = 0
[containers]
runtime = "process"
[rate_limits.github]
min_seconds_between_writes = 1
[github]
repositories = ["acme/widgets"]
api_url = %q
token_env = "GITHUB_TOKEN"
writes = true
poll_seconds = 1
delivery = "branch"
[[stage]]
name = "CODE"
run = ["sh", "-c", %q]
timeout_seconds = 60
`

// newAlone returns a director with an embedded bus, not yet started.
func newAlone(t *testing.T, work string) (d *twin, w *world) {
	t.Helper()
	w, api := newWorld(t)
	d = &twin{t: t, dir: filepath.Join(w.dir, "alone")}
	d.data = filepath.Join(d.dir, ".retake")
	check(t, os.Mkdir(d.dir, 0o755))
	check(t, os.WriteFile(filepath.Join(d.dir, "c.toml"), fmt.Appendf(nil, aloneConfig, api, work), 0o600))
	t.Cleanup(d.endWithLog)
	return d, w
}

// says runs a command line, checks its exit code and returns its output.
func (d *twin) says(exit int, line string) string {
	d.t.Helper()
	out, code := shell(d.t, d.dir, line)
	if code != exit {
		d.t.Errorf("%s: exit %d, want %d\n%s", line, code, exit, out)
	}
	d.t.Logf("$ %s\n%s", line, out)
	return out
}

// contains checks that an output has the given texts. A text after ! must be absent.
func contains(t *testing.T, out string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		without, not := strings.CutPrefix(text, "!")
		if strings.Contains(out, without) == not {
			t.Errorf("%q: found %t in\n%s", without, !not, out)
		}
	}
}

// TestANightWithOneDirector types an operator's commands, from the start of a director to its end.
func TestANightWithOneDirector(t *testing.T) {
	d, w := newAlone(t, "echo 'fatal: cannot log in to the model' >&2; exit 1")
	key := w.issue("Paint the fence")
	began := time.Now().Truncate(time.Second)
	d.start()
	d.begins(began)
	wait(t, "a question", func() bool { return slices.Contains(w.github.Issue(key).Labels, "agent-blocked") })

	out := d.says(0, "director status -c c.toml")
	contains(t, out, "needs you", key, "director explain "+key, "/acme/widgets/issues/", "!0001-01-01")
	d.says(0, "director pause -c c.toml")
	paused := phaseSince(t, d.says(0, "director status -c c.toml"))
	if paused.Before(began) || paused.Sub(began) < time.Second {
		t.Errorf("paused since %s, and the director began at %s", paused, began)
	}
	d.says(0, "director resume -c c.toml")

	d.journalBeside()
	d.says(0, "director grant "+key+" +2 -c c.toml")
	contains(t, d.says(0, "director events --issue "+key+" -c c.toml"), "commands: grant", "!budget")
	wait(t, "the granted attempts have failed", func() bool {
		return strings.Count(d.says(0, "director events -c c.toml"), "asked a person") > 1
	})

	d.signal(syscall.SIGTERM)
	out = d.says(0, "director explain "+key+" -c c.toml")
	contains(t, out, "STOPPED", "director run", "director retry "+key)
	if strings.Index(out, "director run") > strings.Index(out, "director retry") {
		t.Errorf("it offers a command before the start that the command needs:\n%s", out)
	}
	contains(t, d.says(0, "director explain --json "+key+" -c c.toml"), `"director_stopped":true`)
	contains(t, d.says(0, "director tasks -c c.toml"), "The director is stopped", "director run", key, "Blocked")
	contains(t, d.says(0, "director tasks --json -c c.toml"), `"director_stopped":true`, "!is stopped")
	contains(t, d.says(2, "director retry "+key+" -c c.toml"), "is a director running")
}

// begins polls the status until the director decides. Until then the exit code is 1, or 2 without a socket.
func (d *twin) begins(began time.Time) {
	d.t.Helper()
	for seen := ""; ; {
		out, exit := shell(d.t, d.dir, "director status -c c.toml")
		if exit == 0 {
			contains(d.t, out, "MONITOR", "!0001-01-01")
			d.t.Logf("before it decided, it said:\n%s", seen)
			return
		}
		if strings.Contains(out, "0001-01-01") || strings.Contains(out, "UNRESPONSIVE") {
			d.t.Errorf("while it starts:\n%s", out)
		}
		if seen = out; time.Since(began) > time.Minute {
			d.t.Fatalf("it does not begin:\n%s", out)
		}
	}
}

// journalBeside checks the commands that read the journal while its director runs.
func (d *twin) journalBeside() {
	d.t.Helper()
	contains(d.t, d.says(0, "director journal verify -c c.toml"), "whole", "yes", "!DAMAGED")
	contains(d.t, d.says(0, "director journal verify --json -c c.toml"), `"damages":[]`)
	contains(d.t, d.says(0, "director journal export out.jsonl.zst -c c.toml"), " batches, up to ")
	if f, err := chain.Read(filepath.Join(d.dir, "out.jsonl.zst"), nil, nil); err != nil || f.Trailer.Batches == 0 {
		d.t.Errorf("the export: %+v, %v", f, err)
	}
	out := d.says(2, "director journal import out.jsonl.zst -c c.toml")
	contains(d.t, out, "another director is running on", "Stop it first", "!director.fleet")
	if h, err := operator.AskHealth(d.t.Context(), d.data); err != nil || !h.OK {
		d.t.Errorf("afterwards: %+v, %v", h, err)
	}
}

// phaseSince reads the time from the line about the phase.
func phaseSince(t *testing.T, status string) time.Time {
	t.Helper()
	m := regexp.MustCompile(`(?m)^phase +\w+, since (\S+)$`).FindStringSubmatch(status)
	if m == nil {
		t.Fatalf("no phase with a time:\n%s", status)
	}
	at, err := time.Parse(time.RFC3339, m[1])
	check(t, err)
	return at
}
