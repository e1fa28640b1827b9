package worker

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"retake/internal/bus/wire"
)

// paused starts a worker and pauses it in the middle of its first stage. It returns two minutes later.
func paused(t *testing.T, p *wire.Plan, bus *fakeBus, r *fakeRunner) <-chan ExitCode {
	t.Helper()
	done := make(chan ExitCode, 1)
	go func() { done <- testWorker(t, p, bus, r).run(t.Context()) }()
	time.Sleep(30 * time.Second)
	synctest.Wait()
	bus.worker().Control(&wire.Pause{})
	bus.worker().Control(&wire.Pause{}) // repetitions have no effect
	time.Sleep(2 * time.Minute)
	synctest.Wait()
	return done
}

func TestPauseWaitsForTheStagesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, bus, r := testPlan(t), newFakeBus(), &fakeRunner{script: []exit{minute(0), minute(0)}}
		began := time.Now()
		done := paused(t, p, bus, r)
		if len(r.runs) != 1 {
			t.Fatalf("%d stages ran, want only the running one", len(r.runs))
		}
		if h := bus.worker().Alive(); h.State.Stage != wire.StageValidate || h.State.Progress.Step != wire.StepPaused {
			t.Errorf("%+v", h.State)
		}
		var before int
		bus.set(func() { before = len(bus.beats) })
		time.Sleep(3 * time.Hour) // the watchdog would expire after one hour
		bus.set(func() {
			if beats := bus.beats[before:]; len(beats) < 3*60*4-2 || beats[0].State.Progress.Step != wire.StepPaused {
				t.Errorf("%d heartbeats while paused, %+v", len(beats), beats[0].State.Progress)
			}
		})
		bus.worker().Control(&wire.Resume{})
		bus.worker().Control(&wire.Resume{})
		if code := <-done; code != ExitResult || len(r.runs) != 2 {
			t.Errorf("exit %d, %d stages", code, len(r.runs))
		}
		if took := time.Since(began); took < 3*time.Hour {
			t.Errorf("took %s", took)
		}
	})
}

// TestWatchdogGoesOnAfterAPause checks that the time before the pause counts.
func TestWatchdogGoesOnAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, bus, r := testPlan(t), newFakeBus(), &fakeRunner{script: []exit{minute(0)}} // VALIDATE never ends
		began := time.Now()
		done := paused(t, p, bus, r)
		time.Sleep(10*time.Hour - 90*time.Second) // the pause began after the first minute
		bus.worker().Control(&wire.Resume{})
		if code := <-done; code != ExitWatchdog {
			t.Errorf("exit %d", code)
		}
		if took := time.Since(began) - 10*time.Hour; took < time.Hour || took > time.Hour+10*time.Second {
			t.Errorf("lived for %s in addition to the pause, want an hour", took)
		}
		if e := bus.onlyError(t); e.Stage != wire.StageValidate || e.ErrorType != "timeout" {
			t.Errorf("%+v", e)
		}
	})
}

func TestStoppedWhilePaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, bus, r := testPlan(t), newFakeBus(), &fakeRunner{script: []exit{minute(0), minute(0)}}
		done := paused(t, p, bus, r)
		began := time.Now()
		bus.worker().Control(&wire.Stop{Reason: wire.StopShutdown, GraceSeconds: 4})
		if code := <-done; code != ExitStopped || time.Since(began) > time.Second || len(r.runs) != 1 {
			t.Errorf("exit %d after %s, %d stages", code, time.Since(began), len(r.runs))
		}
		if e := bus.onlyError(t); e.ErrorType != "worker_lost" || e.Stage != wire.StageValidate {
			t.Errorf("%+v", e)
		}
	})
}

// TestPauseHoldsNoReportBack checks that a pause does not hold back a report, because no stage follows it.
func TestPauseHoldsNoReportBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, bus, r := testPlan(t), newFakeBus(), &fakeRunner{script: []exit{minute(1)}}
		if code := <-paused(t, p, bus, r); code != ExitError {
			t.Errorf("exit %d", code)
		}
		bus.onlyError(t)
	})
}

func TestPauseBeforeAFixRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, bus, r := testPlan(t), newFakeBus(), &fakeRunner{script: []exit{{}, minute(1), minute(0), minute(0)}}
		done := paused(t, p, bus, r)
		if h := bus.worker().Alive(); len(r.runs) != 2 || h.State.Stage != wire.StageCode ||
			h.State.Progress.Step != wire.StepPaused {
			t.Errorf("%d stages, %+v", len(r.runs), h.State)
		}
		if !strings.Contains(readFile(t, p, failureText), "make test") {
			t.Error("the agent's instructions are missing")
		}
		bus.worker().Control(&wire.Resume{})
		if code := <-done; code != ExitResult || len(r.runs) != 4 {
			t.Errorf("exit %d, %d stages", code, len(r.runs))
		}
	})
}

func TestSyncRequiredReachesTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, bus, r := testPlan(t), newFakeBus(), &fakeRunner{script: []exit{minute(0), minute(0)}}
		old := filepath.Join(p.Workdir, syncFile)
		if err := os.MkdirAll(filepath.Dir(old), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(old, []byte("of an earlier attempt"), 0o644); err != nil {
			t.Fatal(err)
		}
		r.onRun = func(command) {
			if _, err := os.Stat(old); len(r.runs) == 1 && err == nil {
				t.Error("an earlier attempt's file still exists")
			}
		}
		done := make(chan ExitCode, 1)
		go func() { done <- testWorker(t, p, bus, r).run(t.Context()) }()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		bus.worker().Control(&wire.SyncRequired{
			Reason: "behind_main", MainSHAExpected: "abc123", Policy: wire.SyncPolicy{MaxCommitsBehind: 20},
			RequiredAction: "merge_main",
		})
		synctest.Wait()
		var got syncNotice
		if err := json.Unmarshal([]byte(readFile(t, p, syncFile)), &got); err != nil || got.At.IsZero() ||
			got.MainSHAExpected != "abc123" || got.Policy.MaxCommitsBehind != 20 {
			t.Errorf("%+v, %v", got, err)
		}
		if code := <-done; code != ExitResult || len(r.runs) != 2 { // the worker continues
			t.Errorf("exit %d, %d stages", code, len(r.runs))
		}
	})
}
