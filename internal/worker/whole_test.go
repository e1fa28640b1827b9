package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"retake/internal/agent"
	"retake/internal/budget"
	"retake/internal/bus/wire"
)

func TestWholeFixedInTheSecondRound(t *testing.T) {
	w := newWorld(t)
	w.setting(1, "TEST_RIGHT_IN", "2")
	if code := w.run(t.Context()); code != ExitResult {
		t.Fatalf("exit %d\n%s", code, w.err)
	}
	all := w.reports()
	res, ok := all[0].(*wire.WorkerResult)
	if len(all) != 1 || !ok || len(res.Stages) != 4 || res.Stages[1].ExitCode != 1 || res.Stages[3].ExitCode != 0 {
		t.Fatalf("got %+v", all)
	}
	if out := w.out.String(); !strings.Contains(out, "was told: VALIDATE") ||
		!strings.Contains(out, "--- FAIL: TestWidget") {
		t.Errorf("container's stdout:\n%s", out)
	}
	for _, line := range strings.Split(strings.TrimSpace(w.err.String()), "\n") {
		text, own := strings.CutPrefix(line, logPrefix)
		var fields map[string]any
		if !own || json.Unmarshal([]byte(text), &fields) != nil || fields["worker"] != "k3v9qx2m-1" {
			t.Errorf("container's stderr: %q", line)
		}
	}
}

func TestWholeTestsFail(t *testing.T) {
	w := newWorld(t)
	w.setting(1, "TEST_RIGHT_IN", "never")
	if code := w.run(t.Context()); code != ExitError {
		t.Fatalf("exit %d\n%s", code, w.err)
	}
	if e := w.onlyError(); e.ErrorType != "tests_failed" || e.FixRounds != 3 || e.ErrorID != "k3v9qx2m-1/VALIDATE-3" ||
		e.IsTransient || !e.EscalateToHuman || !strings.Contains(e.LastStdoutTail, "FAIL") {
		t.Errorf("%+v", e)
	}
}

func TestWholeQuestion(t *testing.T) {
	w := newWorld(t)
	w.setting(0, programEnv, "asker")
	w.run(t.Context())
	if e := w.onlyError(); e.ErrorType != "needs_human" || e.Question != "Which of the two formats is meant?" {
		t.Errorf("%+v", e)
	}
}

func TestWholeMissingProgram(t *testing.T) {
	w := newWorld(t)
	w.plan.Stages[0].Run, w.env = []string{"no-such-agent"}, []string{"PATH=/opt/bin:/usr/none"}
	w.run(t.Context())
	if e := w.onlyError(); e.ErrorType != "missing_prereq" || !strings.Contains(e.Message, "no-such-agent") ||
		!strings.Contains(e.Message, "/opt/bin:/usr/none") || e.ExitCode != nil {
		t.Errorf("%+v", e)
	}
}

// TestWholeSecretsStayHere checks that no stage gets the bus password, and that known values never appear on the bus or
// on the console.
func TestWholeSecretsStayHere(t *testing.T) {
	w := newWorld(t)
	w.setting(0, programEnv, "speak")
	w.setting(0, "TEST_ENV", "1")
	w.setting(0, "TEST_EXIT", "1")
	w.plan.Secrets = []string{"model-key-0123456789"}
	w.env = []string{"MODEL_KEY=model-key-0123456789", "SNEAKY=x" + w.plan.Bus.Seed, "RETAKE_BUS_URL=nats://x"}
	w.run(t.Context())
	e := w.onlyError()
	if !strings.Contains(e.LastStdoutTail, "MODEL_KEY=[REDACTED]") {
		t.Errorf("the stage got no model key:\n%s", e.LastStdoutTail)
	}
	for _, text := range []string{e.LastStdoutTail, w.out.String(), w.err.String()} {
		for _, no := range []string{"model-key-0123456789", w.plan.Bus.Seed, "SNEAKY", "RETAKE_BUS_URL"} {
			if strings.Contains(text, no) {
				t.Errorf("%q got out", no)
			}
		}
	}
}

// TestWholeBusRestarts stops the bus while a stage runs, and restarts it on the same port after the stage ended. The
// report, made without the bus, follows the hello. Messages must not be lost or sent twice.
func TestWholeBusRestarts(t *testing.T) {
	for name, row := range map[string]struct {
		timeout float64 // of the stage
		code    ExitCode
		report  func(wire.Payload) bool
	}{
		// Five seconds are enough to start, to ignore SIGTERM, and to be left alone by the bus.
		"a failure": {5, ExitError, func(p wire.Payload) bool {
			e, ok := p.(*wire.WorkerError)
			return ok && e.ErrorType == "timeout" && e.Signal == "SIGKILL" && e.ShouldRetry
		}},
		"a success": {60, ExitResult, func(p wire.Payload) bool {
			r, ok := p.(*wire.WorkerResult)
			return ok && len(r.Stages) == 2
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.plan.Stages[0].TimeoutSeconds = row.timeout
			w.setting(0, programEnv, "stubborn")
			if row.code == ExitResult {
				w.setting(0, programEnv, "waiter")
				w.plan.Stages[1].Run, w.plan.Stages[1].Env[programEnv] = w.plan.Stages[0].Run, "speak"
			}
			done := w.start()
			stubbornPID(t, w.plan.Workdir)
			w.stopBus()
			if err := os.WriteFile(filepath.Join(w.plan.Workdir, "go"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			eventually(t, "a spooled report", func() bool {
				return slices.ContainsFunc(spoolFiles(t, w.plan),
					func(f string) bool { return strings.HasSuffix(f, "k3v9qx2m-1.0001.json") })
			})
			select {
			case code := <-done:
				t.Fatalf("exit %d although the report was not stored", code)
			case <-time.After(300 * time.Millisecond): // a worker that gave up would have ended by then
			}
			before := w.hellos
			w.startBus()
			if code := <-done; code != row.code {
				t.Fatalf("exit %d\n%s", code, w.err)
			}
			if all := w.reports(); len(all) != 1 || !row.report(all[0]) {
				t.Errorf("%+v", all)
			}
			if w.hellos <= before || w.had[before] != 0 || len(spoolFiles(t, w.plan)) != 1 {
				t.Errorf("%d hellos after the restart, reports before each: %v, spool %v", w.hellos-before, w.had,
					spoolFiles(t, w.plan))
			}
		})
	}
}

// newer is a bus on which the worker's hello has another protocol version.
type newer struct{ Bus }

func (n newer) Hello(ctx context.Context, h wire.Hello) (wire.Payload, error) {
	h.ProtocolVersion = "2.0"
	return n.Bus.Hello(ctx, h)
}

func TestWholeIncompatible(t *testing.T) {
	w := newWorld(t)
	code := w.runWith(t.Context(), func(p *wire.Plan, l Listener) (Bus, error) {
		b, err := DialBus(p, l)
		return newer{b}, err
	})
	left, err := os.ReadDir(w.plan.Workdir)
	if err != nil {
		t.Fatal(err)
	}
	if code != ExitRefused || len(w.reports()) > 0 || w.hellos != 1 || len(left) > 0 {
		t.Errorf("exit %d, reports %v, %d hellos, in the workspace %v", code, w.reports(), w.hellos, left)
	}
	for _, want := range []string{"major_version", "protocol 1.0", "this worker 2.0", "sync_main_and_restart"} {
		if !strings.Contains(w.err.String(), want) {
			t.Errorf("its log does not say %q:\n%s", want, w.err)
		}
	}
}

// TestWholePauseAndSync sends both messages over the bus during a stage, and the stage continues.
func TestWholePauseAndSync(t *testing.T) {
	w := newWorld(t)
	w.setting(0, programEnv, "waiter")
	w.setting(1, programEnv, "speak")
	done := w.start()
	stubbornPID(t, w.plan.Workdir)
	for _, p := range []wire.Payload{wire.Pause{}, wire.SyncRequired{
		Reason: "behind_main", MainSHAExpected: "abc123",
		RequiredAction: "merge_main",
	}} {
		if err := w.bus.Send(t.Context(), "k3v9qx2m-1", p); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the agent learns of it", func() bool {
		data, err := os.ReadFile(filepath.Join(w.plan.Workdir, syncFile))
		return err == nil && strings.Contains(string(data), "abc123")
	})
	if err := os.WriteFile(filepath.Join(w.plan.Workdir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a paused heartbeat", w.beat(func(h wire.Heartbeat) bool {
		return h.State.Stage == wire.StageValidate && h.State.Progress != nil &&
			h.State.Progress.Step == wire.StepPaused
	}))
	if h, err := w.bus.Probe(t.Context(), "k3v9qx2m-1"); err != nil || h.State.Progress.Step != wire.StepPaused {
		t.Errorf("probe while paused: %+v, %v", h, err)
	}
	if err := w.bus.Send(t.Context(), "k3v9qx2m-1", wire.Resume{}); err != nil {
		t.Fatal(err)
	}
	if code := <-done; code != ExitResult {
		t.Errorf("exit %d\n%s", code, w.err)
	}
}

// TestWholeLeases checks that programs of the stages get leases from the director. Leases that they keep are returned.
func TestWholeLeases(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	w := newWorld(t)
	w.setting(0, programEnv, "leaser")
	w.setting(1, programEnv, "leaser")
	w.plan.Stages[0].Resource = "model.anthropic"
	if code := w.run(t.Context()); code != ExitResult {
		t.Fatalf("exit %d\n%s\n%s", code, w.out, w.err)
	}
	for _, want := range []string{
		`{"grant_id":"run_x.1","lease_seconds":120}`,
		`{"grant_id":"run_x.2","lease_seconds":120}`,
	} {
		if !strings.Contains(w.out.String(), want) {
			t.Errorf("no %s in\n%s", want, w.out)
		}
	}
	for _, resource := range []string{"model.anthropic", "model.default"} {
		if g := peek(w.pool, resource); g.Why != budget.WhyCooldown {
			t.Errorf("%s: %+v", resource, g)
		}
	}
	if r, ok := w.reports()[0].(*wire.WorkerResult); !ok || r.Usage == nil || r.Usage.PaidCalls != 2 {
		t.Errorf("%+v; want a paid call of each stage, since one has a resource and one got a lease", w.reports()[0])
	}
	if held := w.pool.Drop(time.Now(), w.plan.WorkerID); len(held) > 0 {
		t.Errorf("leases were not released: %q", held)
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "budget-*", "leases")); len(left) > 0 {
		t.Errorf("left %q", left)
	}
}

// TestWholeLeaseBeyondTheBudget checks that the worker refuses leases after the last paid call of the task.
func TestWholeLeaseBeyondTheBudget(t *testing.T) {
	w := newWorld(t)
	w.setting(0, programEnv, "leaser")
	w.plan.PaidCallsLeft = new(int64(0))
	w.run(t.Context())
	e := w.onlyError()
	if e.ErrorType != "needs_human" || e.Usage != nil || !strings.Contains(e.Message, "got no lease") ||
		!strings.Contains(e.Message, "recovery.paid_call_budget") {
		t.Errorf("%+v; want the setting to raise", e)
	}
}

func TestWholeProbeAndStop(t *testing.T) {
	w := newWorld(t)
	w.setting(0, programEnv, "stubborn")
	done := w.start()
	pid := stubbornPID(t, w.plan.Workdir)
	eventually(t, "a heartbeat in CODE", w.beat(func(h wire.Heartbeat) bool { return h.State.Stage == wire.StageCode }))
	h, err := w.bus.Probe(t.Context(), "k3v9qx2m-1")
	if err != nil || h.State.Stage != wire.StageCode || h.State.IssueNumber != 21 {
		t.Errorf("probe: %+v, %v", h, err)
	}
	if err := w.bus.Send(t.Context(), "k3v9qx2m-1", wire.Stop{Reason: wire.StopFenced}); err != nil {
		t.Fatal(err)
	}
	if code := <-done; code != ExitStopped || !gone(pid) || len(w.reports()) > 0 {
		t.Errorf("exit %d, stage gone %v, reports %v", code, gone(pid), w.reports())
	}
}

func TestWholeSIGTERM(t *testing.T) {
	w := newWorld(t)
	w.setting(0, programEnv, "stubborn")
	ctx, terminate := context.WithCancel(t.Context())
	done := make(chan ExitCode, 1)
	go func() { done <- w.run(ctx) }()
	pid := stubbornPID(t, w.plan.Workdir)
	terminate()
	if code := <-done; code != ExitTerminated || !gone(pid) || len(w.reports()) > 0 {
		t.Errorf("exit %d, stage gone %v", code, gone(pid))
	}
}

func TestRunSaysWhatIsWrongWithThePlan(t *testing.T) {
	var out buffer
	if code := Run(t.Context(), Options{
		PlanFile: "/no/such/plan.json", Stdout: &out,
		Stderr: &out,
	}); code != ExitBadPlan {
		t.Errorf("exit %d", code)
	}
	if got := fmt.Sprint(&out); !strings.HasPrefix(got, logPrefix) || !strings.Contains(got, "--plan") {
		t.Errorf("said %q", got)
	}
}

// TestWholeAgent runs a program with a profile over real pipes and a real bus. The guard gets its limit while it runs,
// it gets its prompt, and the director gets its usage.
func TestWholeAgent(t *testing.T) {
	w := newWorld(t)
	table, err := agent.Parse(agent.Builtin(), []byte("[[agent]]\nname = \"mine\"\nprogram = '"+testProgram(t)+
		"'\nargs = [\"-p\", \"{prompt}\"]\nformat = \"retake\"\nprovider = \"mine\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	stage, err := table.Expand(agent.Stage{Name: wire.StageCode, Agent: "mine", Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	stage.Env = map[string]string{programEnv: "talker", "TEST_DIR": w.plan.Workdir}
	w.plan.Stages = []wire.StagePlan{stage}
	w.plan.AttemptFile = &wire.AttemptFile{
		AttemptID: "k3v9qx2m-1", Attempt: 1,
		Issue: wire.IssueRef{Key: "acme/widgets#21", Title: "mend it"},
	}
	done := make(chan ExitCode)
	go func() { done <- w.run(t.Context()) }()
	stubbornPID(t, w.plan.Workdir)
	eventually(t, "the limit at the guard", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return peek(w.pool, "model.mine").Why == budget.WhyCooldown
	})
	eventually(t, "its step in a heartbeat", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return slices.ContainsFunc(w.beats, func(h wire.Heartbeat) bool {
			return h.State.Progress != nil &&
				h.State.Progress.Step == "reading"
		})
	})
	if err := os.WriteFile(filepath.Join(w.plan.Workdir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if code := <-done; code != ExitResult {
		t.Fatalf("exit %d\n%s", code, w.err)
	}
	if !strings.Contains(w.out.String(), `"tokens":1234`) {
		t.Errorf("its output does not reach the container's log: %s", w.out)
	}
	stored, err := w.bus.Reports().Of(t.Context(), "k3v9qx2m-1", 0)
	if err != nil || len(stored) != 1 {
		t.Fatalf("%d reports, %v", len(stored), err)
	}
	if r, ok := stored[0].Body.(*wire.WorkerResult); !ok || r.Usage == nil ||
		*r.Usage != (wire.Usage{Tokens: 1234, CostUSD: 0.5, PaidCalls: 1}) {
		t.Errorf("%+v", stored[0].Body)
	}
}
