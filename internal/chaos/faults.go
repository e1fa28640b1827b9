package chaos

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"syscall"
	"time"

	"retake/internal/github/githubtest"
	"retake/internal/testbed"
)

// fault is a failure that a round can inject.
type fault struct {
	name   string
	weight int // relative frequency
	// without returns the reason why a world does not support the fault, or "".
	without func(w *world) string
	// throw injects the fault, reverts it, and returns a note about its target. It returns an error only if the
	// test itself cannot continue.
	throw throw
}

// faults is the table of all faults.
var faults = []fault{
	{"director killed", 6, always, killDirector},
	{"director killed while starting", 3, always, killStarting},
	{"director stopped", 2, always, stopDirector},
	{"director frozen", 2, always, freezeDirector(time.Second, 9*time.Second)},
	{"director frozen for a long time", 1, always, freezeDirector(10*time.Second, time.Minute)},
	{"director short of CPU", 2, always, slowProcessor(1, 5)},
	{"second director, same data", 1, always, secondDirector},

	{"director killed, another leads", 3, needsLease, takeOver((*testbed.Process).Kill)},
	{"director stopped, another leads", 2, needsLease, takeOver(func(p *testbed.Process) { _ = p.Stop() })},
	{"director frozen, another leads", 2, needsLease, takeOver(func(p *testbed.Process) { p.Signal(syscall.SIGSTOP) })},

	{"worker killed", 3, always, onWorker(testbed.Host.Kill)},
	{"worker removed", 2, always, onWorker(testbed.Host.Remove)},
	{"worker frozen briefly", 2, always, freezeWorker},
	{"worker frozen permanently", 1, always, onWorker(testbed.Host.Pause)},
	{"worker disconnected", 2, needsDocker, disconnectWorker},
	{"workers killed, director dead", 2, always, killEverybody},

	{"NATS restarted", 2, needsJoined, restartNATS},
	{"NATS killed", 2, needsJoined, killNATS},
	{"NATS frozen", 1, needsJoined, freezeNATS},
	{"cluster: leader killed", 6, needsCluster, oneServer(leads, (*testbed.Process).Kill)},
	{"cluster: follower killed", 6, needsCluster, oneServer(follows, (*testbed.Process).Kill)},
	{"cluster: leader frozen", 3, needsCluster, oneServer(leads, stopRunning)},
	{"cluster: follower frozen", 3, needsCluster, oneServer(follows, stopRunning)},
	{"cluster: rolling restart", 6, needsCluster, rollingRestart},
	{"cluster: minority", 6, needsCluster, minority},

	{"GitHub: server errors", 2, always, withWeather(weather{share: 0.5, does: serverError(http.StatusBadGateway)})},
	{"GitHub: responses lost", 2, always, withWeather(weather{share: 0.5, does: cut, also: isWrite})},
	{"GitHub: truncated responses", 2, always, withWeather(weather{share: 0.4, does: half})},
	{"GitHub: late responses", 1, always, withWeather(weather{share: 0.4, does: late})},
	{"GitHub: stalled responses", 1, always, withWeather(weather{share: 0.4, does: stall})},
	{"GitHub: false success", 1, always, withWeather(weather{share: 0.4, does: lie, also: isWrite})},
	{"GitHub: rate limit", 2, always, stateLimit},
	{
		"GitHub: one 404", 1, always,
		withWeather(weather{share: 1, most: 1, does: refuse(http.StatusNotFound, "Not Found"), also: isIssue}),
	},
	{
		"GitHub: one 401", 1, always,
		withWeather(weather{
			share: 1, most: 1, does: refuse(http.StatusUnauthorized, "Bad credentials"),
			also: isIssue,
		}),
	},
	{
		"GitHub: one 403", 1, always,
		withWeather(weather{
			share: 1, most: 1, does: refuse(http.StatusForbidden, "Resource not accessible by personal access token"),
			also: isIssue,
		}),
	},
	{"GitHub: errors at startup", 1, always, startInBadWeather},
	{
		"git: rate limit", 1, always,
		withWeather(weather{
			share: 1, most: 2,
			does: refuse(http.StatusForbidden, "You have exceeded a secondary rate limit."), also: isGit,
		}),
	},
	{
		"git: server errors", 1, always,
		withWeather(weather{share: 0.7, does: serverError(http.StatusServiceUnavailable), also: isGit}),
	},
	{"git: web pages", 1, always, withWeather(weather{share: 1, most: 2, does: page, also: isGit})},
	{"git: pushes fail", 1, always, failPushes},
	{"git: responses lost", 1, always, withWeather(weather{share: 0.5, does: cut, also: isGit})},

	{"disk slow", 2, needsDisk, slowDisk(200*time.Millisecond, 5*time.Second)},
	{"disk full", 2, needsDisk, fillDisk},
	{"disk read-only", 1, needsDisk, readOnly},
	{"power cut", 3, needsDisk, cutPower},
	{"journal damaged", 2, needsRebuild, damageJournal},
	{"NATS wiped", 1, both(needsJoined, needsRebuild), wipeNATS},

	{"a person closes an issue", 1, always, onIssue(closeIssue)},
	{"a person takes an issue back", 1, always, onIssue(takeBack)},
	{"a person closes and reopens", 1, always, onIssue(reopenIssue)},
	{"a person says retry", 1, always, onIssue(sayRetry)},
	{"a person asks why", 1, always, onIssue(askWhy)},
	{"a person comments fifty times", 1, always, onIssue(manyComments)},
	{"a person requeues a claimed issue", 1, always, onIssue(takeAndPutBack)},
	{"a person edits the marker", 1, always, onIssue(editMarker)},
	{"a person requests more changes", 1, always, askForMore},
}

func always(*world) string { return "" }

// both combines the conditions of two faults.
func both(first, second func(*world) string) func(*world) string {
	return func(w *world) string { return cmp.Or(first(w), second(w)) }
}

func needsDocker(w *world) string {
	if w.runtime != testbed.RuntimeDocker {
		return "plain processes use the host's network"
	}
	return ""
}

func needsJoined(w *world) string {
	if w.bus != busJoined {
		return "the embedded server stops with the director"
	}
	return ""
}

// between returns a random duration from least to most.
func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)+1))
}

func killDirector(ctx context.Context, w *world, r *rand.Rand) (string, error) {
	down := between(r, 0, 2*time.Second)
	w.director.Kill()
	err := testbed.Pause(ctx, down)
	return fmt.Sprintf("down for %v", down.Round(time.Millisecond)), orNot(err, w.director.Start)
}

func orNot(err error, then func() error) error {
	if err != nil {
		return err
	}
	return then()
}

func killStarting(ctx context.Context, w *world, r *rand.Rand) (string, error) {
	n := 1 + r.IntN(3)
	w.director.Kill()
	for range n {
		if err := w.director.Start(); err != nil {
			return "", err
		}
		if err := testbed.Pause(ctx, between(r, 20*time.Millisecond, 900*time.Millisecond)); err != nil {
			return "", err
		}
		w.director.Kill()
	}
	return fmt.Sprintf("%d times", n), w.director.Start()
}

func stopDirector(ctx context.Context, w *world, r *rand.Rand) (string, error) {
	if err := w.director.Stop(); err != nil {
		return "", err
	}
	err := testbed.Pause(ctx, between(r, 0, 2*time.Second))
	return "", orNot(err, w.director.Start)
}

// victim waits until workers run and picks one. ok is false if none appears in time.
func (w *world) victim(ctx context.Context, r *rand.Rand) (v testbed.Worker, ok bool) {
	var live []testbed.Worker
	_ = testbed.Await(ctx, 4*time.Second, "a worker", func() bool { live = w.live(ctx); return len(live) > 0 })
	if len(live) == 0 {
		return v, false
	}
	_ = testbed.Pause(ctx, between(r, 0, 1500*time.Millisecond))
	if live = w.live(ctx); len(live) == 0 {
		return v, false
	}
	return live[r.IntN(len(live))], true
}

const nobody = "no worker was running"

// onWorker returns a throw that calls do for a random worker.
func onWorker(do func(testbed.Host, context.Context, string) error) func(context.Context, *world,
	*rand.Rand) (string, error) {
	return func(ctx context.Context, w *world, r *rand.Rand) (string, error) {
		v, ok := w.victim(ctx, r)
		if !ok {
			return nobody, nil
		}
		w.hurt(v.Attempt)
		if err := do(w.host, ctx, v.Attempt); err != nil {
			return fmt.Sprintf("%s %s had already ended: %v", v.Task, v.Attempt, err), nil
		}
		return fmt.Sprintf("%s %s", v.Task, v.Attempt), nil
	}
}

func freezeWorker(ctx context.Context, w *world, r *rand.Rand) (string, error) {
	v, ok := w.victim(ctx, r)
	if !ok {
		return nobody, nil
	}
	d := between(r, 500*time.Millisecond, 9*time.Second)
	w.hurt(v.Attempt)
	if w.host.Pause(ctx, v.Attempt) != nil {
		return v.Attempt + " had already ended", nil //nolint:nilerr // the fault came too late
	}
	err := testbed.Pause(ctx, d)
	_ = w.host.Unpause(context.WithoutCancel(ctx), v.Attempt) // the director may have removed the worker
	return fmt.Sprintf("%s %s for %v", v.Task, v.Attempt, d.Round(time.Millisecond)), err
}

func disconnectWorker(ctx context.Context, w *world, r *rand.Rand) (string, error) {
	v, ok := w.victim(ctx, r)
	if !ok {
		return nobody, nil
	}
	d := between(r, time.Second, 12*time.Second)
	w.hurt(v.Attempt)
	if w.host.Disconnect(ctx, v.Attempt) != nil {
		return v.Attempt + " had already ended", nil //nolint:nilerr // the fault came too late
	}
	err := testbed.Pause(ctx, d)
	_ = w.host.Reconnect(context.WithoutCancel(ctx), v.Attempt) // the director may have removed the worker
	return fmt.Sprintf("%s %s for %v", v.Task, v.Attempt, d.Round(time.Millisecond)), err
}

func killEverybody(ctx context.Context, w *world, r *rand.Rand) (string, error) {
	_, _ = w.victim(ctx, r)
	w.director.Kill()
	live := w.live(ctx)
	w.hurt("")
	for _, v := range live {
		_ = w.host.Kill(ctx, v.Attempt) // the worker may have ended already
	}
	err := testbed.Pause(ctx, between(r, 0, 3*time.Second))
	return fmt.Sprintf("%d workers", len(live)), orNot(err, w.director.Start)
}

func restartNATS(ctx context.Context, w *world, r *rand.Rand) (string, error) {
	if err := w.nats.Stop(); err != nil {
		return "", err
	}
	d := between(r, 0, 8*time.Second)
	err := testbed.Pause(ctx, d)
	return fmt.Sprintf("down for %v", d.Round(time.Millisecond)), orNot(err, w.nats.Start)
}

func killNATS(ctx context.Context, w *world, r *rand.Rand) (string, error) {
	w.nats.Kill()
	err := testbed.Pause(ctx, between(r, 0, 2*time.Second))
	return "", orNot(err, w.nats.Start)
}

func freezeNATS(ctx context.Context, w *world, r *rand.Rand) (string, error) {
	d := between(r, time.Second, 8*time.Second)
	w.nats.Signal(syscall.SIGSTOP)
	err := testbed.Pause(ctx, d)
	w.nats.Signal(syscall.SIGCONT)
	return fmt.Sprintf("for %v", d.Round(time.Millisecond)), err
}

// withWeather returns a throw that applies the given weather to the proxy for a while.
func withWeather(now weather) func(context.Context, *world, *rand.Rand) (string, error) {
	return func(ctx context.Context, w *world, r *rand.Rand) (string, error) {
		before := w.proxy.hits()
		w.proxy.set(&now, r.Uint64())
		err := testbed.Pause(ctx, between(r, 2*time.Second, 6*time.Second))
		w.proxy.set(nil, 0)
		return fmt.Sprintf("%d requests", w.proxy.hits()-before), err
	}
}

// startInBadWeather kills the director, and makes an eighth of its requests fail while it restarts.
func startInBadWeather(ctx context.Context, w *world, r *rand.Rand) (string, error) {
	w.director.Kill()
	now := weather{share: 0.12, does: serverError(http.StatusServiceUnavailable)}
	w.proxy.set(&now, r.Uint64())
	defer w.proxy.set(nil, 0)
	if err := w.director.Start(); err != nil {
		return "", err
	}
	err := testbed.Pause(ctx, between(r, 2*time.Second, 5*time.Second))
	if state, ended := w.director.EndedItself(); ended {
		return fmt.Sprintf("the director exited with code %d", state.ExitCode()), err
	}
	return "", err
}

// stateLimit makes GitHub report a rate limit of a few seconds.
func stateLimit(ctx context.Context, w *world, r *rand.Rand) (string, error) {
	d := between(r, time.Second, 6*time.Second).Round(time.Second)
	status := []int{http.StatusForbidden, http.StatusTooManyRequests}[r.IntN(2)]
	if err := w.github.Inject(githubtest.SecondaryLimit(status, d)); err != nil {
		return "", err
	}
	err := testbed.Pause(ctx, d)
	return fmt.Sprintf("%d, for %v", status, d), err
}
