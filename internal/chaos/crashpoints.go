package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"retake/internal/director/operator"
	"retake/internal/fsm"
	"retake/internal/sys/crashpoint"
	"retake/internal/testbed"
)

// Time limits for one crash point.
const (
	reachedWithin      = 30 * time.Second // until the director reaches the point
	reachedAgainWithin = 5 * time.Second  // until the director reaches the point in recovery
)

// stimuli lists the actions that make a director reach certain crash points. A row applies to the points whose names
// contain its `in` field. Ordinary work reaches all other points.
var stimuli = []struct {
	in    string
	first string // part.First of the issue's agent, or waits
	throw func(context.Context, *world, *rand.Rand) (string, error)
}{
	{"/release/", "", onIssue(takeBack)},
	{"/forget/", "", onIssue(closeIssue)},
	{"/escalate/", "asks", patiently},
	{"/read_answers/", "asks", patiently},
	{"/reply/", "", onIssue(askWhy)},
	{"/probe/", "", onWorker(testbed.Host.Pause)},
	{"/remind/", waits, patiently},
	{"/fence/", "", freezeWorker},
	{"/remove/", "", addUnknownWorker},
	{"/recheck/", "fails", patiently},
	{"/read_issue/", "", closeUnseen},
	{"/read_review/", "", closeReviewed},
	{"/reclaim/", "", openOrphanClaim},
	{"/tidy/", "", onIssue(addStrayLabel)},
	{"/pause/", "", command(fsm.Pause, fsm.Resume)},
	{"/resume/", "", command(fsm.Pause, fsm.Resume)},
}

// patiently is the action for points that ordinary work reaches. It only waits.
func patiently(ctx context.Context, _ *world, _ *rand.Rand) (string, error) {
	return "", testbed.Pause(ctx, 500*time.Millisecond)
}

// command returns an action that sends commands to the director as an operator.
func command(commands ...fsm.OperatorCommand) func(context.Context, *world, *rand.Rand) (string, error) {
	return func(ctx context.Context, w *world, r *rand.Rand) (string, error) {
		_, _ = w.victim(ctx, r)
		for _, c := range commands {
			_, _ = operator.SendCommand(ctx, w.data(), c) // the director may have been killed
			if err := testbed.Pause(ctx, time.Second); err != nil {
				return "", err
			}
		}
		return "", nil
	}
}

// openOrphanClaim opens an issue that looks like an orphan claim.
func openOrphanClaim(ctx context.Context, w *world, _ *rand.Rand) (string, error) {
	key := w.github.CreateIssue(repository, testbed.Person, "Not for the agent", "Labelled by mistake.\n",
		testbed.LabelClaimed)
	return key, testbed.Pause(ctx, reachedWithin/2)
}

// addUnknownWorker creates the container of an attempt that is not part of any task.
func addUnknownWorker(ctx context.Context, w *world, r *rand.Rand) (string, error) {
	v, ok := w.victim(ctx, r)
	if !ok {
		return nobody, nil
	}
	unknown := fmt.Sprintf("z%07d-1", r.IntN(10_000_000))
	if err := w.host.Leave(ctx, unknown, v.Attempt); err != nil {
		return v.Attempt + " had already ended", nil //nolint:nilerr // the fault came too late
	}
	return unknown, testbed.Pause(ctx, 5*time.Second)
}

// closeUnseen closes an issue as a person while the director claims it. The proxy delays issue lists, so the
// director wins the claim before it sees that the issue is closed.
func closeUnseen(ctx context.Context, w *world, r *rand.Rand) (string, error) {
	i := w.openAs(r, "")
	isClaimed := func() bool { return slices.Contains(w.github.Issue(i.key).Labels, testbed.LabelClaimed) }
	if err := testbed.Await(ctx, reachedWithin, "the claim", isClaimed); err != nil {
		return "", err
	}
	isList := func(req *http.Request) bool {
		return req.Method == http.MethodGet && strings.HasSuffix(req.URL.Path, "/issues")
	}
	w.proxy.set(&weather{share: 1, does: late, also: isList}, r.Uint64())
	defer w.proxy.set(nil, 0)
	err := testbed.Pause(ctx, 2*time.Second)
	return i.key, errors.Join(err, closeIssue(ctx, w, i), testbed.Pause(ctx, 4*time.Second))
}

// closeReviewed closes an issue in review as a person, without merging its work.
func closeReviewed(ctx context.Context, w *world, _ *rand.Rand) (string, error) {
	all := w.github.Issues(repository)
	for _, i := range w.all() {
		if len(testbed.Pulls(all, i.key)) == 0 {
			w.mu.Lock()
			i.merges = false
			w.mu.Unlock()
		}
		if now := w.github.Issue(i.key); !i.gone && !i.merges && now.State == "open" &&
			slices.Equal(now.Labels, []string{testbed.LabelReview}) {
			if err := testbed.Pause(ctx, 2*time.Second); err != nil { // gives the director time to record the delivery
				return "", err
			}
			return i.key, closeIssue(ctx, w, i)
		}
	}
	return "no pull request is waiting for review", testbed.Pause(ctx, 100*time.Millisecond)
}

// crash kills the director at every crash point, and again at the same point during the recovery.
func (w *world) crash(ctx context.Context, seed uint64, only string, t *table) error {
	var points []string
	for _, p := range crashpoint.Points {
		for n := range max(1, often[p]) {
			if wanted(p, only) {
				points = append(points, fmt.Sprintf("%s#%d", p, n+1))
			}
		}
	}
	order := rand.New(rand.NewPCG(seed, 3))
	order.Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
	for i, point := range points {
		if w.runtime == testbed.RuntimeDocker && strings.HasPrefix(point, "process/") ||
			w.runtime != testbed.RuntimeDocker && strings.HasPrefix(point, "container/") {
			w.log.add("%s: skipped: the point requires the other runtime", point)
			continue
		}
		t.more("crash points", 1)
		if err := w.crashAt(ctx, rand.New(rand.NewPCG(seed, uint64(i))), point, t); err != nil {
			return fmt.Errorf("chaos: %s: %w", point, err)
		}
	}
	return nil
}

// often lists the points that ordinary work passes repeatedly, with the number of passes to test. The test kills the
// director once at each of these passes.
var often = map[string]int{
	"append/before": 20, "append/after": 20, "github/write/before": 8, "github/write/after": 8,
	"effect/progress/before": 2, "effect/progress/after": 2,
}

func (w *world) crashAt(ctx context.Context, r *rand.Rand, at string, t *table) error {
	point, _, _ := strings.Cut(at, "#")
	w.director.Kill()
	if err := w.director.StartWith(crashpoint.Variable + "=" + at); err != nil {
		return err
	}
	throw := w.stimulate(r, point)
	stimulated, stop := context.WithCancel(ctx)
	var stimulus sync.WaitGroup
	stimulus.Go(func() {
		for stimulated.Err() == nil {
			if len(w.unended()) == 0 { // a stimulus closed the issue, or one task passes the point too rarely
				w.openAs(r, "")
			}
			if _, err := throw(stimulated, w, r); err != nil {
				return
			}
		}
	})
	reached := testbed.Await(ctx, reachedWithin, "", w.director.KilledItself) == nil
	stop()
	stimulus.Wait()
	if !reached {
		t.bad("crash points not reached", at)
		return w.again(ctx, t, "crash points")
	}
	t.more("crash points reached", 1)
	w.director.Kill() // the Process then counts as stopped
	if err := w.director.StartWith(crashpoint.Variable + "=" + point); err != nil {
		return err
	}
	inRecovery := testbed.Await(ctx, reachedAgainWithin, "", w.director.KilledItself) == nil
	if inRecovery {
		t.more("crash points reached in recovery", 1)
	}
	w.log.add("%s: killed; in recovery: %v", at, inRecovery)
	return w.again(ctx, t, at)
}

// stimulate opens an issue whose task reaches the point, and returns an action for the caller to repeat.
func (w *world) stimulate(r *rand.Rand, point string) func(context.Context, *world, *rand.Rand) (string, error) {
	first, throw := "", patiently
	for _, s := range stimuli {
		if strings.Contains(point, s.in) {
			first, throw = s.first, s.throw
			break
		}
	}
	if len(w.unended()) < openIssues {
		w.openAs(r, first)
	}
	return throw
}

// again restarts the director without a crash point, and waits until it is healthy.
func (w *world) again(ctx context.Context, t *table, what string) error {
	w.director.Kill()
	if err := w.director.Start(); err != nil {
		return err
	}
	began := time.Now()
	if err := w.awaitWell(ctx, recoverTime); err == nil {
		_, _ = operator.SendCommand(ctx, w.data(), fsm.Resume) // an operator's pause survives a restart
	}
	if why := w.recovered(ctx); why != "" {
		t.bad("not recovered within 2 minutes", what+": "+why)
	}
	t.took("crash points", time.Since(began))
	return ctx.Err()
}
