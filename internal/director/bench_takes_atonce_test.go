package director

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	apicontainer "github.com/docker/docker/api/types/container"

	"retake/internal/bench"
	"retake/internal/director/loop"
	"retake/internal/director/record"
	"retake/internal/fsm"
)

// manyTakes starts many attempts at once. It leaves out claims, because GitHub's limits would spread so many over a
// minute.
func manyTakes(t *testing.T, image string) {
	s := newStage(t, image, atOnce, false)
	for range atOnce {
		s.github.CreateIssue(repo, "octocat", "Do it", "", "agent-task")
	}
	d, err := open(t.Context(), s.options(), false)
	must(t, err)
	defer d.close()
	sess := d.newSession()
	sess.recorder, _, err = record.New(fsm.New(d.machineConfig(d.setup())), d.recordOptions())
	must(t, err)
	must(t, errors.Join(d.hub.Bus().ShareSecret(t.Context()), d.repositories.OpenAny(t.Context())))
	sess.newAttempts()
	names := make([]string, atOnce)
	began := time.Now()
	must(t, eachAtOnce(atOnce, func(i int) error {
		nonce := loop.NewNonce()
		names[i] = fsm.AttemptID(nonce, 1)
		out := sess.starter.Start(t.Context(), fsm.Effect{
			Kind: fsm.DoStart, Task: fsm.IssueKey(fmt.Sprint(repo, "#", i+1)), Nonce: nonce, Attempt: 1,
			Worker: names[i],
			At:     time.Now(), Start: &fsm.StartOrder{WatchdogAt: time.Now().Add(time.Hour)},
		})
		if out.Failure != nil {
			return errors.New(out.Failure.Text)
		}
		return nil
	}))
	var last time.Time
	var like apicontainer.InspectResponse
	for _, name := range names {
		info, _, started := s.started(name)
		like, last = info, later(last, started)
	}
	s.removeAll(t.Context(), s.ours())
	b := &bare{s: s, like: like, dir: t.TempDir()}
	must(t, os.Chmod(b.dir, 0o777))
	runs := make([]time.Time, atOnce)
	bareBegan := time.Now()
	must(t, eachAtOnce(atOnce, func(i int) (err error) {
		runs[i], err = b.run(t.Context(), fmt.Sprint(s.config.Director.Fleet, "-bare", i))
		return err
	}))
	bareLast := slices.MaxFunc(runs, time.Time.Compare)
	s.removeAll(t.Context(), b.label())
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	bench.Record(t, bench.Figure{
		Section: "takes", What: fmt.Sprintf("%d starts at once, checkouts and all → last container runs", atOnce),
		Value: ms(last.Sub(began)), Unit: "ms",
		Beside: ms(bareLast.Sub(bareBegan)), Of: ofBare, Goal: bench.Goal{AtMost: 1.3, Ratio: true},
	})
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
