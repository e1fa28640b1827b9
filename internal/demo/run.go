package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/fsm"
	"retake/internal/patience"
	"retake/internal/testbed"
)

// Wall-clock times of a run.
const (
	// pollEvery is the interval at which the demo reads the state of the director and the GitHub stand-in.
	pollEvery = 100 * time.Millisecond
	// quietTime is the period without events on the GitHub stand-in that ends a run. It exceeds one poll interval plus
	// the second between two of the director's writes.
	quietTime = 2500 * time.Millisecond
)

// killAfter lists how long each director runs before it is killed. Some are killed while working, others while
// starting. Ten kills take about as long as the scenarios.
var killAfter = []time.Duration{
	3500 * time.Millisecond, 60 * time.Millisecond, 11 * time.Second, 1800 * time.Millisecond, 200 * time.Millisecond,
	15 * time.Second, 6 * time.Second, 400 * time.Millisecond, 13 * time.Second, 9 * time.Second,
}

// running is the state of a task with a worker that sends heartbeats.
var running = fsm.Running.String()

// activeScenario is one scenario while it runs.
type activeScenario struct {
	scenario
	state        string        // its last state in the director's log
	attempt      int           // number of its current attempt
	stage        string        // current stage of its worker
	since        time.Time     // when that stage was first seen
	rounds       int           // runs of CODE in the current attempt
	faultAt      time.Time     // when its worker was killed or frozen
	noticedAfter time.Duration // time from faultAt to the director's decision; 0 until then
	answered     bool          // the demo's human has answered
	judged       string        // the last commit of its pull request with a reported check
	done         bool          // its labels show that the issue is finished
	began        time.Time     // when the director found the issue
	ended        time.Time     // when the issue was done
}

// run is the state of one run, from the director's start to its end. One goroutine owns it.
type run struct {
	*progressLog
	screen    *screen // the live view; nil without a terminal
	world     *world
	director  *directorProcess
	scenarios []*activeScenario

	kills     int // remaining kills of the director
	killTimer *time.Timer
	killed    int
	adopted   int
	log       *logTail
	state     wire.Snapshot // the director's last answer
	limit     rateLimit

	busy    []float64 // measurements of the machine's slowness during GitHub's pause
	events  int       // number of events on the GitHub stand-in
	changed time.Time // when that number last changed, or the director did not answer
}

// run runs the scenarios until all have ended and no more events occur.
func (r *run) run(ctx context.Context) error {
	if err := r.director.Start(); err != nil {
		return err
	}
	defer func() { _ = r.director.Stop() }()
	r.print("the director is running; it may write to the fake GitHub at most once a second")
	r.changed = time.Now()
	r.killTimer = time.NewTimer(time.Hour)
	defer r.killTimer.Stop()
	r.scheduleKill()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for !r.finished() {
		select {
		case <-r.director.more:
			for _, l := range r.director.take() {
				r.handleLogLine(l)
			}
		case <-tick.C:
			if err := r.poll(ctx); err != nil {
				return err
			}
		case <-r.killTimer.C:
			if err := r.killDirector(); err != nil {
				return err
			}
		case <-r.director.Ended():
			return fmt.Errorf("%w: %s", errDirector, r.log.last())
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	r.print("all issues are finished; stopping the director")
	return nil
}

// finished reports whether all scenarios have ended, all kills are done, and the director is idle.
func (r *run) finished() bool {
	for _, a := range r.scenarios {
		if !a.done {
			return false
		}
	}
	return r.kills == 0 && time.Since(r.changed) > quietTime
}

// handleLogLine updates the run after one line of the director's log.
func (r *run) handleLogLine(l line) {
	if l.Message == "adopted a running container" {
		r.adopted++
	}
	r.logLine(l)
	a := r.scenario(l.Issue)
	if a == nil || l.Message != "transition" {
		return
	}
	if a.state = l.To; a.began.IsZero() {
		a.began = l.at
	}
	if n, ok := l.Attempt.(float64); ok {
		a.attempt = int(n)
	}
	if l.To == fsm.Starting.String() {
		a.stage, a.rounds = "", 0
	}
	if a.Fault == faultKill && l.To == fsm.Stopping.String() && !a.faultAt.IsZero() && a.noticedAfter == 0 {
		a.noticedAfter = max(l.at.Sub(a.faultAt), time.Millisecond)
		r.printFor(a.key(), "the director noticed it after %d ms", a.noticedAfter.Milliseconds())
	}
}

// slowness returns how many times slower this machine was than an idle machine, on average, during GitHub's pause.
func (r *run) slowness() float64 {
	sum := 0.0
	for _, b := range r.busy {
		sum += b
	}
	return max(1, sum/float64(max(1, len(r.busy))))
}

func (r *run) scenario(issue string) *activeScenario {
	i := slices.IndexFunc(r.scenarios, func(a *activeScenario) bool { return a.key() == issue })
	if i < 0 {
		return nil
	}
	return r.scenarios[i]
}

// poll reads the director's state and the issues, and injects the faults that are due.
func (r *run) poll(ctx context.Context) error {
	if time.Now().Before(r.limit.until) {
		r.busy = append(r.busy, patience.Busy())
	}
	state, answers := r.director.snapshot(ctx)
	if n := len(r.world.github.Events("")); n != r.events || !answers {
		r.events, r.changed = n, time.Now()
	}
	if answers {
		r.state = state
	}
	for _, w := range state.Workers {
		if a := r.scenario(w.Issue); a != nil {
			r.showStage(a, w)
			if err := r.injectFault(ctx, a, w); err != nil {
				return err
			}
		}
	}
	for _, a := range r.scenarios {
		if err := r.checkLabels(a); err != nil {
			return err
		}
		if err := r.limitRequests(a); err != nil {
			return err
		}
	}
	r.refresh()
	return nil
}

// checkLabels determines from the issue's labels whether a scenario has ended. If the issue waits for a human,
// checkLabels acts as the human.
func (r *run) checkLabels(a *activeScenario) error {
	if a.done {
		return nil
	}
	labels := testbed.OurLabels(r.world.github.Issue(a.key()).Labels)
	blocked := slices.Equal(labels, []string{testbed.LabelBlocked})
	switch {
	case blocked && a.Answer != "":
		r.answer(a)
		return nil
	case a.Merged && !blocked:
		if ended, err := r.review(a, labels); !ended || err != nil {
			return err
		}
	case !blocked && !slices.Equal(labels, []string{testbed.LabelReview}):
		return nil
	}
	if a.done, a.ended = true, time.Now(); blocked {
		r.printFor(a.key(), "the question is at %s", r.world.page(a.Number))
	}
	return nil
}

// answer writes the human's answer to the question, once.
func (r *run) answer(a *activeScenario) {
	if a.answered {
		return
	}
	a.answered = true
	r.printFor(a.key(), "the question is at %s", r.world.page(a.Number))
	r.printFor(a.key(), "%s comments there: %s", a.human(), a.Answer)
	r.world.github.AddComment(a.key(), a.human(), a.Answer)
}

// showStage prints the stage that a worker has reached.
func (r *run) showStage(a *activeScenario, w wire.SnapshotWorker) {
	if w.Stage == a.stage || w.State != running {
		return
	}
	a.stage, a.since = w.Stage, time.Now()
	switch {
	case w.Stage == wire.StageCode && a.rounds > 0:
		a.rounds++
		r.printFor(a.key(), "CODE again: fix round %d", a.rounds)
	case w.Stage == wire.StageCode:
		a.rounds = 1
		r.printFor(a.key(), "CODE: the agent is working")
	case w.Stage == wire.StageValidate:
		r.printFor(a.key(), "VALIDATE: go build, go vet, go test, and the built program")
	}
}

// killDirector kills the director with SIGKILL and starts the next one.
func (r *run) killDirector() error {
	r.killed, r.kills = r.killed+1, r.kills-1
	age := time.Since(r.director.Started()).Round(10 * time.Millisecond)
	r.director.Kill()
	r.director.take()
	r.print("killed the director with kill -9 (%d of %d), %v after it started; last seen: %s", r.killed,
		r.killed+r.kills, age,
		summary(r.state))
	r.changed = time.Now()
	if err := r.director.Start(); err != nil {
		return err
	}
	r.scheduleKill()
	return nil
}

// scheduleKill sets when the director is killed next.
func (r *run) scheduleKill() {
	if r.kills > 0 {
		// With more kills, the intervals are shorter, so that all kills happen during the work. The random part makes
		// each run different.
		faster := min(1, float64(len(killAfter))/float64(r.kills+r.killed))
		r.killTimer.Reset(time.Duration(float64(killAfter[r.killed%len(killAfter)]) * faster * (0.7 +
			0.6*rand.Float64())))
	}
}

// summary lists the tasks with their states.
func summary(s wire.Snapshot) string {
	stages := map[string]string{}
	for _, w := range s.Workers {
		stages[w.Issue] = w.Stage
	}
	var out []string
	for _, t := range s.Tasks {
		_, number, _ := strings.Cut(t.Issue, "#")
		out = append(out, strings.TrimSpace(fmt.Sprintf("#%s %s %s", number, t.State, stages[t.Issue])))
	}
	if len(out) == 0 {
		return "no tasks"
	}
	return strings.Join(out, ", ")
}

// unreached returns an error listing the outcomes that were not reached in time.
func (r *run) unreached() error {
	var missing []string
	for _, a := range r.scenarios {
		if !a.done {
			missing = append(missing, fmt.Sprintf("%s (%s)", a.key(), a.Title))
		}
	}
	if len(missing) == 0 {
		missing = []string{"a period without events"}
	}
	return errors.New("not reached in time: " + strings.Join(missing, ", "))
}

// keepRunning restarts the director, and keeps it and the pages running until ctx is done.
func (r *run) keepRunning(ctx context.Context) error {
	if err := r.director.Start(); err != nil {
		return err
	}
	defer func() { _ = r.director.Stop() }()
	director, config, data := r.director.Argv[0], r.world.config(), r.world.data()
	fmt.Fprintf(r.out, `
the director runs until Ctrl-C; then the demo removes everything
  issues       %s/%s
               (give one of them the label %s: the agent can do only issues 1 to 13, and fails on all others)
  its data     %s
  its state    %s status -c %s
  why          %s explain -c %s %s#2
  what failed  %s report --dir %s
  what it used %s budget show --dir %s
`, r.world.github.URL, repository, testbed.LabelTask, data, director, config, director, config, repository, director, data, director,
		data)
	for {
		select {
		case <-r.director.more:
			for _, l := range r.director.take() {
				r.logLine(l)
			}
		case <-r.director.Ended():
			return fmt.Errorf("%w: %s", errDirector, r.log.last())
		case <-ctx.Done():
			return nil
		}
	}
}
