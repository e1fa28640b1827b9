package worker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	agentbus "retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/recovery"
	"retake/internal/secrets/redact"
)

// minute returns the result of a program that ends with a code after a minute.
func minute(code int) exit {
	return exit{
		code: code, took: time.Minute, stdout: tail{kept: []byte("some output\n")},
		stderr: tail{kept: []byte("some trouble\n")},
	}
}

func TestAllStagesWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, bus, r := testPlan(t), newFakeBus(), &fakeRunner{script: []exit{minute(0), minute(0)}}
		began := time.Now()
		if code := testWorker(t, p, bus, r).run(t.Context()); code != ExitResult {
			t.Fatalf("exit %d", code)
		}
		res, ok := bus.only(t).(*wire.WorkerResult)
		if !ok {
			t.Fatalf("got %+v", bus.only(t))
		}
		want := wire.List[wire.StageResult]{
			{Stage: "CODE", DurationMS: 60000, Command: []string{"agent", "--headless"}, StartedAt: wire.At(began)},
			{
				Stage: "VALIDATE", DurationMS: 60000, Command: []string{"make", "test"},
				StartedAt: wire.At(began.Add(time.Minute)),
			},
		}
		if !reflect.DeepEqual(res.Stages, want) || res.AttemptID != p.AttemptID ||
			res.ResultID != "k3v9qx2m-1/result" || res.IssueNumber != 21 {
			t.Errorf("result %+v", res)
		}
		if len(spoolFiles(t, p)) != 1 || !bus.closed { // the report is kept, because the bus may lose stored messages
			t.Errorf("spool %v, bus closed %v", spoolFiles(t, p), bus.closed)
		}
		story := bus.story()
		if story[0] != "hello" || !slices.Contains(story, "progress CODE") ||
			!slices.Contains(story, "progress VALIDATE") {
			t.Errorf("story %q", story)
		}
		beats := 0
		for _, s := range story {
			if strings.HasPrefix(s, "heartbeat") {
				beats++
			}
		}
		if beats < 8 || beats > 12 { // two minutes at 15 s, the first, and one per stage
			t.Errorf("%d heartbeats: %q", beats, story)
		}
	})
}

// TestCommandInAReport checks that the command is masked, and short enough for people.
func TestCommandInAReport(t *testing.T) {
	a := &attempt{mask: redact.New("hunter2-hunter2")}
	for name, row := range map[string]struct{ run, want []string }{
		"plain":     {[]string{"go", "test", "./..."}, []string{"go", "test", "./..."}},
		"a secret":  {[]string{"curl", "-u", "me:hunter2-hunter2"}, []string{"curl", "-u", "me:[REDACTED]"}},
		"no UTF-8":  {[]string{"echo", "a\xff"}, []string{"echo", "a?"}},
		"long":      {[]string{"sh", "-c", strings.Repeat("x", 1000), "y"}, []string{"sh", "-c", "…"}},
		"many":      {slices.Repeat([]string{"x"}, 100), append(slices.Repeat([]string{"x"}, 32), "…")},
		"just fits": {[]string{strings.Repeat("x", 512)}, []string{strings.Repeat("x", 512)}},
	} {
		if got := a.result(wire.StagePlan{Run: row.run}, exit{}).Command; !slices.Equal(got, row.want) {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
}

func TestEnvironmentOfStages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := "alternative-1"
		p, bus, r := testPlan(t), newFakeBus(), &fakeRunner{script: []exit{minute(0), minute(1), minute(0), minute(0)}}
		p.AttemptFile = &wire.AttemptFile{
			AttemptID: p.AttemptID, Attempt: 1, Action: "retry_alternative",
			Model: &model,
		}
		p.Stages[0].Env = map[string]string{"EXTRA": "1", "RETAKE_STAGE": "forged"}
		testWorker(t, p, bus, r).run(t.Context())
		if len(r.runs) != 4 {
			t.Fatalf("%d runs", len(r.runs))
		}
		for _, want := range []string{
			"EXTRA=1", "RETAKE_STAGE=CODE", "RETAKE_ATTEMPT=1", "RETAKE_ATTEMPT_ID=k3v9qx2m-1",
			"RETAKE_ACTION=retry_alternative",
			"RETAKE_MODEL=alternative-1", "RETAKE_ISSUE=acme/widgets#21", "RETAKE_FIX_ROUND=1", "HOME=" + p.Workdir,
			"PATH=" + defaultPath,
		} {
			if !slices.Contains(r.runs[0].env, want) {
				t.Errorf("no %s in %q", want, r.runs[0].env)
			}
		}
		if !slices.Contains(r.runs[2].env, "RETAKE_FIX_ROUND=2") ||
			!slices.Contains(r.runs[3].env, "RETAKE_FIX_ROUND=2") {
			t.Errorf("second round: %q", r.runs[2].env)
		}
		if c := r.runs[0]; c.dir != p.Workdir || c.timeout != 30*time.Minute || c.grace != 10*time.Second {
			t.Errorf("command %+v", c)
		}
		if !strings.Contains(readFile(t, p, attemptFile), `"action": "retry_alternative"`) {
			t.Error("no attempt.json")
		}
	})
}

// TestHeartbeatsTellProgressAndTheLastError checks that every heartbeat has a step, and names the newest failure of a
// fix round or of the attempt.
func TestHeartbeatsTellProgressAndTheLastError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, bus := testPlan(t), newFakeBus()
		r := &fakeRunner{script: []exit{minute(0), minute(1), minute(0), minute(1), minute(0), minute(1)}}
		testWorker(t, p, bus, r).run(t.Context())
		var errorIDs []string
		for i, b := range bus.beats {
			if b.State.Progress == nil || b.State.Progress.Step == "" {
				t.Errorf("heartbeat %d in %s has no progress", i, b.State.Stage)
			}
			if id := b.State.LastErrorID; id != nil && !slices.Contains(errorIDs, *id) {
				errorIDs = append(errorIDs, *id)
			}
		}
		if want := []string{"k3v9qx2m-1/VALIDATE-1", "k3v9qx2m-1/VALIDATE-2", "k3v9qx2m-1/VALIDATE-3"}; !slices.Equal(
			errorIDs, want) {
			t.Errorf("the heartbeats name %q, want %q", errorIDs, want)
		}
	})
}

func TestErrorTypesAreTheHarnessWordsWhereTheySayTheSame(t *testing.T) {
	for reason, want := range map[recovery.Reason]string{
		recovery.BuildFailed: "build_failed", recovery.ToolNotFound: "missing_prereq",
		recovery.BusDisconnect: "agent_bus_disconnect",
		recovery.TestsFailed:   "tests_failed", recovery.InvalidConfig: "invalid_config",
		recovery.Unknown: "docker_exit_nonzero", recovery.ContextOverflow: "context_overflow",
		recovery.RateLimited: "rate_limited",
	} {
		synctest.Test(t, func(t *testing.T) {
			bus := newFakeBus()
			w := testWorker(t, testPlan(t), bus, &fakeRunner{script: []exit{minute(1)}})
			w.classify = func(recovery.Evidence) recovery.Finding { return recovery.Finding{Reason: reason} }
			w.run(t.Context())
			e := bus.onlyError(t)
			if read, ok := recovery.ReasonOf(e.ErrorType); e.ErrorType != want || !ok || read != reason {
				t.Errorf("%s is reported as %q, want %q", reason, e.ErrorType, want)
			}
		})
	}
}

func TestMissingProgramIsLookedForOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, bus := testPlan(t), newFakeBus()
		r := &fakeRunner{script: []exit{{err: errNoProgram}, minute(0), minute(0)}}
		if code := testWorker(t, p, bus, r).run(t.Context()); code != ExitResult || len(r.runs) != 3 {
			t.Fatalf("exit %d, %d runs", code, len(r.runs))
		}
	})
}

// TestReportOutlivesTheBus disconnects the bus in the middle of a stage. The report waits in the spool, and a hello
// precedes it.
func TestReportOutlivesTheBus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, bus, r := testPlan(t), newFakeBus(), &fakeRunner{script: []exit{minute(1)}}
		done := make(chan ExitCode)
		go func() { done <- testWorker(t, p, bus, r).run(t.Context()) }()
		time.Sleep(30 * time.Second)
		bus.set(func() { bus.down = true })
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		files := spoolFiles(t, p)
		if len(files) != 1 {
			t.Fatalf("spool %v", files)
		}
		data, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		if env, err := wire.Decode(data); err != nil || reportID(env.Payload) != "k3v9qx2m-1/CODE-1" {
			t.Errorf("spooled %s: %v", data, err)
		}
		before := len(bus.story())
		bus.set(func() { bus.down = false; bus.returns++ })
		bus.worker().Reconnected()
		if code := <-done; code != ExitError {
			t.Errorf("exit %d", code)
		}
		after := bus.story()[before:]
		hello, report := slices.Index(after, "hello"), slices.Index(after, "worker_error.v1 k3v9qx2m-1/CODE-1")
		if hello < 0 || report < hello {
			t.Errorf("after the reconnect: %q", after)
		}
		if now := spoolFiles(t, p); !slices.Equal(now, files) {
			t.Errorf("spool %v", now)
		}
		bus.only(t)
	})
}

// TestNoReportBeforeTheHello checks that no message is sent while the bus is disconnected. Otherwise, after a
// reconnection between the check and the report, the report would precede the hello.
func TestNoReportBeforeTheHello(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, bus, r := testPlan(t), newFakeBus(), &fakeRunner{script: []exit{minute(1)}}
		done := make(chan ExitCode)
		go func() { done <- testWorker(t, p, bus, r).run(t.Context()) }()
		time.Sleep(30 * time.Second)
		bus.set(func() { bus.away = true })
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		before := len(bus.story())
		bus.set(func() {
			if len(bus.reports) > 0 {
				t.Errorf("reported while away: %q", bus.seen)
			}
			bus.away = false
			bus.returns++
		})
		if code := <-done; code != ExitError {
			t.Errorf("exit %d", code)
		}
		after := bus.story()[before:]
		if hello, report := slices.Index(after, "hello"), slices.Index(after,
			"worker_error.v1 k3v9qx2m-1/CODE-1"); hello < 0 || report < hello {
			t.Errorf("%q", after)
		}
	})
}

func TestSpoolOfAnEarlierAttemptIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, bus, r := testPlan(t), newFakeBus(), &fakeRunner{script: []exit{minute(0), minute(0)}}
		old := filepath.Join(p.Workdir, spoolFolder, "k3v9qx2m-0.0001.json")
		if err := errors.Join(os.MkdirAll(filepath.Dir(old), 0o755),
			os.WriteFile(old, []byte("{}"), 0o600)); err != nil {
			t.Fatal(err)
		}
		testWorker(t, p, bus, r).run(t.Context())
		bus.only(t)
		if files := spoolFiles(t, p); len(files) != 2 || files[0] != old {
			t.Errorf("spool %v", files)
		}
	})
}

func TestQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, bus, r := testPlan(t), newFakeBus(), &fakeRunner{script: []exit{minute(0)}}
		file := filepath.Join(p.Workdir, questionFile)
		ask := func(text string) {
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755),
				os.WriteFile(file, []byte(text), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		ask("a question of an earlier attempt")
		r.onRun = func(command) {
			if _, err := os.Stat(file); err == nil {
				t.Error("the old question is still there")
			}
			ask("Which of the two formats? The seed is bus-seed. " + strings.Repeat("€", 10_000))
		}
		if code := testWorker(t, p, bus, r).run(t.Context()); code != ExitError {
			t.Errorf("exit %d", code)
		}
		e := bus.onlyError(t)
		if e.ErrorType != "needs_human" || !e.EscalateToHuman || e.ShouldRetry || !strings.HasPrefix(e.Question,
			"Which of the two formats? The seed is [REDACTED].") || len(e.Question) > maxQuestionBytes {
			t.Errorf("%+v", e)
		}
	})
}

func TestReportsFitAndAreMasked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, bus := testPlan(t), newFakeBus()
		p.Bus.MaxMessageBytes = 8192
		p.Secrets = []string{"hunter2-hunter2"}
		big := []byte(strings.Repeat("\x01\"<€\n", 6000) + "the newest hunter2-hunter2 line\n")
		r := &fakeRunner{script: []exit{{code: 1, stdout: tail{kept: big, dropped: 5}, stderr: tail{kept: big}}}}
		w := testWorker(t, p, bus, r)
		bus.ack = func(wire.Payload) error {
			data, err := os.ReadFile(spoolFiles(t, p)[0])
			if err != nil || len(data) > 8192 {
				t.Errorf("%d bytes, %v", len(data), err)
			}
			return nil
		}
		w.run(t.Context())
		e := bus.onlyError(t)
		for _, s := range []string{e.LastStdoutTail, e.LastStderrTail} {
			if !strings.HasSuffix(s, "the newest [REDACTED] line\n") || !strings.HasPrefix(s, "…[") {
				t.Errorf("tail %q", s)
			}
		}
	})
}

// A message that the director permanently refuses is not repeated forever.
func TestRejectedReportIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, tries := newFakeBus(), 0
		b.ack = func(wire.Payload) error {
			tries++
			return fmt.Errorf("%w: reports are no longer accepted", agentbus.ErrRejected)
		}
		if code := testWorker(t, testPlan(t), b, &fakeRunner{script: []exit{minute(0), minute(0)}}).
			run(t.Context()); code != ExitResult || tries != 1 {
			t.Errorf("exit %d after %d tries", code, tries)
		}
	})
}

func TestNoWorkspace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, bus, r := testPlan(t), newFakeBus(), &fakeRunner{}
		p.Workdir = "/no/such/workspace"
		w := testWorker(t, p, bus, r)
		if code := w.run(t.Context()); code != ExitError {
			t.Errorf("exit %d", code)
		}
		if e := bus.onlyError(t); e.Stage != wire.StageStart || !strings.Contains(e.Message, "/no/such/workspace") {
			t.Errorf("%+v", e)
		}
	})
}

func TestPanicIsReported(t *testing.T) {
	t.Run("in a stage", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p, bus, r := testPlan(t), newFakeBus(), &fakeRunner{onRun: func(command) { panic("a bug") }}
			if code := testWorker(t, p, bus, r).run(t.Context()); code != ExitBroken {
				t.Errorf("exit %d", code)
			}
			if e := bus.onlyError(t); e.ErrorType != string(recovery.Unknown) || !strings.Contains(e.Message, "a bug") {
				t.Errorf("%+v", e)
			}
		})
	})
	t.Run("in the loop", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p, bus, r := testPlan(t), newFakeBus(), &fakeRunner{script: []exit{minute(1)}}
			w := testWorker(t, p, bus, r)
			w.classify = func(recovery.Evidence) recovery.Finding { panic("a bug") }
			if code := w.run(t.Context()); code != ExitBroken {
				t.Errorf("exit %d", code)
			}
			if e := bus.onlyError(t); e.ErrorType != string(recovery.Unknown) {
				t.Errorf("%+v", e)
			}
		})
	})
}

func TestProbeIsAnsweredWithTheCurrentPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, bus, r := testPlan(t), newFakeBus(), &fakeRunner{script: []exit{minute(0), minute(0)}}
		go testWorker(t, p, bus, r).run(t.Context())
		time.Sleep(90 * time.Second)
		synctest.Wait()
		h := bus.worker().Alive()
		if h.State.Stage != "VALIDATE" || h.State.IssueNumber != 21 || h.State.Attempt != 1 ||
			h.State.LastErrorID != nil || h.State.Progress.Step != "running make" {
			t.Errorf("%+v", h.State)
		}
	})
}
