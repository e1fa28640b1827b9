package trial

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"retake/internal/agent"
	"retake/internal/agenttest"
	"retake/internal/agenttest/loop"
	"retake/internal/recovery"
	"retake/internal/recovery/classify"
)

// The real worker runs the reference agent, and its edits, usage and failures are read correctly.
func TestTheLoopIsUnderstood(t *testing.T) {
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "retake/cmd/worker",
		"retake/internal/agenttest/cmd/agentloop")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	sim, err := agenttest.Start(t.Context(), "127.0.0.1:0", agenttest.DefaultTask)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sim.Close() })
	table, err := agent.Parse(agent.Builtin(), []byte(loop.Profile))
	if err != nil {
		t.Fatal(err)
	}
	classifier, err := classify.New()
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Table: table, Agent: "agentloop", Worker: filepath.Join(bin, "worker"), Path: bin + ":/usr/bin:/bin",
		Limit: 15 * time.Second, Sim: sim, Classifier: classifier,
	}
	for name, want := range map[string]recovery.Reason{
		"ok": "", "three-failures": "", "invalid-key": recovery.AuthError, "rate-limit-hour": recovery.RateLimited,
		"context-overflow":   recovery.ContextOverflow,
		"insufficient-quota": recovery.QuotaExhausted, "refusal": recovery.NoProgress,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := Run(t.Context(), o, agenttest.Find(name), t.TempDir())
			if err != nil || r.Reason() != want || r.Requests == 0 {
				t.Fatalf("%v: read as %q, want %q; %d requests, report %+v\n%s", err, r.Reason(), want, r.Requests,
					r.Report, r.Output)
			}
			if want == "" && (r.Usage == nil || r.Usage.Tokens == 0 || len(r.Steps) < 3) {
				t.Errorf("usage %+v, steps %q", r.Usage, r.Steps)
			}
			if name == "rate-limit-hour" && r.Finding.RetryAfter != time.Hour {
				t.Errorf("wait %v, want an hour", r.Finding.RetryAfter)
			}
		})
	}
}
