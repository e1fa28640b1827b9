package worker

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"retake/internal/bus/wire"
)

func TestNothingBeforeTheWelcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, bus, r := testPlan(t), newFakeBus(), &fakeRunner{script: []exit{minute(0), minute(0)}}
		bus.down = true
		silent := bus.answer
		done := make(chan ExitCode)
		go func() { done <- testWorker(t, p, bus, r).run(t.Context()) }()
		nothing := func(when string) {
			synctest.Wait()
			entries, _ := os.ReadDir(p.Workdir)
			if len(r.runs) > 0 || len(entries) > 0 {
				t.Errorf("%s: %d runs, and in the workspace: %v", when, len(r.runs), entries)
			}
		}
		time.Sleep(5 * time.Minute)
		nothing("bus down")
		bus.set(func() { bus.down = false; bus.answer = func(wire.Hello) wire.Payload { return nil } })
		time.Sleep(5 * time.Minute)
		nothing("nobody answers")
		for _, s := range bus.story() {
			if s != "hello" {
				t.Errorf("sent before the welcome: %s", s)
			}
		}
		if n := len(bus.story()); n < 40 || n > 150 { // 5 minutes at 2.5 to 7.5 s
			t.Errorf("%d hellos in five minutes", n)
		}
		bus.set(func() { bus.answer = silent })
		if code := <-done; code != ExitResult {
			t.Errorf("exit %d", code)
		}
	})
}

func TestUnwelcomed(t *testing.T) {
	for name, answer := range map[string]func(wire.Hello) wire.Payload{
		"incompatible": func(wire.Hello) wire.Payload { return wire.CheckVersion("2.0") },
		"other major": func(wire.Hello) wire.Payload {
			return &wire.Welcome{ProtocolVersion: "2.0", AttemptID: "k3v9qx2m-1", HeartbeatIntervalSeconds: 1}
		},
		"other attempt": welcomeFor("k3v9qx2m-2"),
		"nonsense":      func(wire.Hello) wire.Payload { return &wire.Probe{} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, bus, r := testPlan(t), newFakeBus(), &fakeRunner{}
				bus.answer = answer
				if code := testWorker(t, p, bus, r).run(t.Context()); code != ExitRefused {
					t.Errorf("exit %d", code)
				}
				if len(r.runs) > 0 || !slices.Equal(bus.story(), []string{"hello"}) {
					t.Errorf("%d runs, story %q", len(r.runs), bus.story())
				}
			})
		})
	}
}

// TestRefusedAfterAReconnect checks that a refusal after a reconnection ends the worker like a stop.
func TestRefusedAfterAReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, bus, r := testPlan(t), newFakeBus(), &fakeRunner{}
		done := make(chan ExitCode)
		go func() { done <- testWorker(t, p, bus, r).run(t.Context()) }()
		time.Sleep(time.Minute)
		bus.set(func() { bus.answer = welcomeFor("k3v9qx2m-2"); bus.returns++ })
		bus.worker().Reconnected()
		if code := <-done; code != ExitRefused || len(bus.reports) > 0 || len(spoolFiles(t, p)) > 0 {
			t.Errorf("exit %d, reports %v, spool %v", code, bus.reports, spoolFiles(t, p))
		}
	})
}

func TestStop(t *testing.T) {
	for reason, row := range map[string]struct {
		report string // its error type, or "" for no report
	}{
		wire.StopFenced: {""}, wire.StopWithdrawn: {""}, wire.StopReplaced: {""},
		wire.StopShutdown: {"worker_lost"}, wire.StopWatchdog: {"timeout"},
	} {
		t.Run(reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, bus, r := testPlan(t), newFakeBus(), &fakeRunner{}
				done := make(chan ExitCode)
				go func() { done <- testWorker(t, p, bus, r).run(t.Context()) }()
				time.Sleep(time.Minute)
				bus.worker().Control(&wire.Welcome{}) // must be ignored and not end the worker
				began := time.Now()
				bus.worker().Control(&wire.Stop{Reason: reason, GraceSeconds: 4})
				if code := <-done; code != ExitStopped {
					t.Errorf("exit %d", code)
				}
				if took := time.Since(began); took != 2*time.Second { // the fake program uses half of its grace
					t.Errorf("took %s", took)
				}
				if row.report == "" {
					if len(bus.reports) > 0 || len(spoolFiles(t, p)) > 0 {
						t.Errorf("reports %+v, spool %v", bus.reports, spoolFiles(t, p))
					}
					return
				}
				if e := bus.onlyError(t); e.ErrorType != row.report || e.Stage != "CODE" || e.Signal != "SIGTERM" ||
					!strings.Contains(e.Message, reason) {
					t.Errorf("%+v", e)
				}
			})
		})
	}
}

func TestSIGTERMEndsWithoutAReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, bus, r := testPlan(t), newFakeBus(), &fakeRunner{}
		ctx, terminate := context.WithCancel(t.Context())
		done := make(chan ExitCode)
		go func() { done <- testWorker(t, p, bus, r).run(ctx) }()
		time.Sleep(time.Minute)
		began := time.Now()
		terminate()
		if code := <-done; code != ExitTerminated || len(bus.reports) > 0 || time.Since(began) > 5*time.Second {
			t.Errorf("exit %d after %s, reports %v", code, time.Since(began), bus.reports)
		}
	})
}

func TestWatchdog(t *testing.T) {
	t.Run("in a stage", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p, bus, r := testPlan(t), newFakeBus(), &fakeRunner{}
			began := time.Now()
			if code := testWorker(t, p, bus, r).run(t.Context()); code != ExitWatchdog {
				t.Errorf("exit %d", code)
			}
			if e := bus.onlyError(t); e.ErrorType != "timeout" || !e.IsTransient || time.Since(began) > time.Hour+
				10*time.Second {
				t.Errorf("after %s: %+v", time.Since(began), e)
			}
		})
	})
	t.Run("unwelcomed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p, bus, r := testPlan(t), newFakeBus(), &fakeRunner{}
			bus.down = true
			if code := testWorker(t, p, bus, r).run(t.Context()); code != ExitWatchdog {
				t.Errorf("exit %d", code)
			}
		})
	})
	t.Run("unacknowledged", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p, bus, r := testPlan(t), newFakeBus(), &fakeRunner{script: []exit{minute(1)}}
			bus.ack = func(wire.Payload) error { return errDown }
			began := time.Now()
			if code := testWorker(t, p, bus, r).run(t.Context()); code != ExitWatchdog ||
				time.Since(began) != time.Hour {
				t.Errorf("exit %d after %s", code, time.Since(began))
			}
			if files := spoolFiles(t, p); len(files) != 1 {
				t.Errorf("spool %v, want the one report", files)
			}
		})
	})
}
