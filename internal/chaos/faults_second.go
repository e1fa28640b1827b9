package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"time"

	"retake/internal/director/operator"
	"retake/internal/testbed"
)

// lease is director.lease_seconds in worlds where another director can stand by.
const lease = 3 * time.Second

func (w *world) shared() string        { return filepath.Join(w.disk.dir, "shared") }
func (w *world) standbyData() string   { return filepath.Join(w.disk.dir, "standby") }
func (w *world) standbyConfig() string { return filepath.Join(w.dir, "standby.toml") }

func needsLease(w *world) string {
	switch {
	case w.bus != busJoined:
		return "an embedded bus supports only one director"
	case !w.leases:
		return "this version of the director does not support director.lease_seconds"
	}
	return ""
}

// secondDirector starts another director on the same data, which must exit without doing any work.
func secondDirector(ctx context.Context, w *world, _ *rand.Rand) (string, error) {
	second := w.newDirector("second", w.config())
	if err := second.Start(); err != nil {
		return "", err
	}
	defer second.Kill()
	err := testbed.Await(ctx, 10*time.Second, "", func() bool { _, ended := second.EndedItself(); return ended })
	if ctx.Err() != nil {
		return "", err
	}
	state, ended := second.EndedItself()
	if !ended {
		w.found("second directors running", "on the same data directory")
		return "the second director runs concurrently with the first", nil
	}
	return fmt.Sprintf("the second director exited with code %d", state.ExitCode()), nil
}

// phaseStandby is the phase that a standby reports.
const phaseStandby = "STANDBY"

// takeOver starts a second director as a standby and ends the first. After the second has led for a while, the first
// takes over again.
func takeOver(end func(*testbed.Process)) func(context.Context, *world, *rand.Rand) (string, error) {
	return func(ctx context.Context, w *world, r *rand.Rand) (note string, err error) {
		second := w.newDirector("standby", w.standbyConfig())
		if err := second.Start(); err != nil {
			return "", err
		}
		defer func() { _ = second.Stop() }()
		phase := func() string {
			ask, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			h, err := operator.AskHealth(ask, w.standbyData())
			if err != nil || !h.OK {
				return ""
			}
			return h.Phase
		}
		if testbed.Await(ctx, 30*time.Second, "", func() bool { return phase() == phaseStandby }) != nil {
			w.found("late takeovers", "the second director is not standing by: its phase is %q", phase())
			return "no second director is standing by", ctx.Err()
		}
		_, _ = w.victim(ctx, r)
		began := time.Now()
		end(w.director)
		leads := func() bool { p := phase(); return p != "" && p != phaseStandby }
		late := testbed.Await(ctx, 20*lease, "", leads) != nil
		took := time.Since(began)
		if late || took > 2*lease+time.Second {
			w.found("late takeovers", "after %v", took.Round(time.Millisecond))
		}
		err = testbed.Pause(ctx, between(r, 0, 4*time.Second))
		w.director.Signal(syscall.SIGCONT) // a frozen director must notice that it has lost the lease
		if err == nil {
			err = testbed.Pause(ctx, between(r, 0, 2*time.Second))
		}
		return fmt.Sprintf("taken over after %.1f s", took.Seconds()), orNot(err, w.director.Start)
	}
}
