package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	batchv1 "k8s.io/api/batch/v1"

	"retake/internal/container"
)

// eventually polls until a condition that depends on another part of the cluster is true.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 30 s", what)
		}
	}
}

func statusNow(t testing.TB, k *Kubernetes, attemptID string) container.Status {
	t.Helper()
	list, err := k.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		if s.AttemptID == attemptID {
			return s
		}
	}
	return container.Status{}
}

func awaitState(t testing.TB, k *Kubernetes, attemptID string, want container.State) {
	t.Helper()
	eventually(t, "state "+string(want), func() bool { return statusNow(t, k, attemptID).State == want })
}

func ensured(t testing.TB, k *Kubernetes, s container.Spec) container.Spec {
	t.Helper()
	if err := k.Ensure(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	return s
}

// running starts a worker and waits until it ignores SIGTERM. A SIGTERM before that would end it.
func running(t testing.TB, f *fake, k *Kubernetes) container.Spec {
	t.Helper()
	s := ensured(t, k, specFor(t, "ignore"))
	awaitState(t, k, s.AttemptID, container.StateRunning)
	eventually(t, "it ignores SIGTERM", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, p := range f.allPods {
			if q := f.played[p.UID]; p.Annotations[container.LabelAttempt] == s.AttemptID && q != nil {
				q.mu.Lock()
				defer q.mu.Unlock()
				return len(q.lines) == 2
			}
		}
		return false
	})
	return s
}

// stoppedAt ends an attempt and checks that its objects are gone.
func stoppedAt(t testing.TB, f *fake, k *Kubernetes, s container.Spec, grace time.Duration) container.Exit {
	t.Helper()
	exit, err := k.Stop(context.Background(), s.AttemptID, grace, nil)
	if err != nil {
		t.Fatalf("Stop: %v", err)
	}
	if s := statusNow(t, k, s.AttemptID); s.State != "" {
		t.Errorf("listed as %+v", s)
	}
	eventually(t, "its objects are gone", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.allJobs)+len(f.allPods)+len(f.secrets) == 0
	})
	return exit
}

// Status.Waiting has the cluster's reason, even if it is not in the Job or the pod. The attempt runs once the reason is
// gone.
func TestWaitingSaysForWhat(t *testing.T) {
	needBoxes(t)
	t.Parallel()
	for _, c := range []struct {
		name, want  string
		begin, over func(*fake)
	}{
		{
			"no node has room", "Unschedulable: 0/1 nodes are available: 1 Insufficient cpu.",
			func(f *fake) { f.room = 0 }, func(f *fake) { f.room = 1 },
		},
		{
			"a quota for pods", "exceeded quota: q, requested: pods=1", func(f *fake) { f.podQuota = true },
			func(f *fake) { f.podQuota = false },
		},
		{
			"a rule", `pod rejected: RuntimeClass "nope" not found`,
			func(f *fake) { f.refuse = `pod rejected: RuntimeClass "nope" not found` },
			func(f *fake) { f.refuse = "" },
		},
		{"a queue", "its Job is suspended", func(f *fake) { f.suspend = true }, (*fake).unsuspend},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.do(func() { c.begin(f) })
			k := openFake(t, f, options("f"))
			s := ensured(t, k, specFor(t, "exit", "0"))
			eventually(t, c.want, func() bool {
				s := statusNow(t, k, s.AttemptID)
				return s.State == container.StatePending && strings.Contains(s.Waiting, c.want)
			})
			f.do(func() { c.over(f) })
			awaitState(t, k, s.AttemptID, container.StateExited)
			if exit := stoppedAt(t, f, k, s, 0); !exit.Known || exit.ExitCode != 0 {
				t.Errorf("got %+v", exit)
			}
		})
	}
}

// If Stop ends an attempt that waits, its Exit has the reason of the wait, because the attempt never ran.
func TestStopWhileItWaits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, want string
		begin      func(*fake)
	}{
		{"for a node", "Insufficient cpu", func(f *fake) { f.room = 0 }},
		{"for its pod", "", func(f *fake) { f.podQuota = true }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.do(func() { c.begin(f) })
			k := openFake(t, f, options("f"))
			s := ensured(t, k, specFor(t, "exit", "0"))
			eventually(t, c.want, func() bool { return strings.Contains(statusNow(t, k, s.AttemptID).Waiting, c.want) })
			if exit := stoppedAt(t, f, k, s, time.Minute); exit.Known || exit.Killed ||
				!strings.Contains(exit.Words, c.want) {
				t.Errorf("got %+v", exit)
			}
		})
	}
}

// An error because of a quota for Jobs is transient.
func TestQuotaForJobs(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	k := openFake(t, f, options("f"))
	f.do(func() { f.jobQuota = true })
	s := specFor(t, "exit", "0")
	err := k.Ensure(t.Context(), s)
	if !errors.Is(err, container.ErrNoRoom) || !errors.Is(err, container.ErrDaemon) || !container.Transient(err) ||
		!strings.Contains(err.Error(), "count/jobs.batch=1") {
		t.Errorf("got %v", err)
	}
	if s := statusNow(t, k, s.AttemptID); s.State != "" {
		t.Errorf("listed as %+v", s)
	}
}

// Errors name a missing right and the next step.
func TestMissingRights(t *testing.T) {
	needBoxes(t)
	t.Parallel()
	for _, r := range Needed() {
		t.Run(r.String(), func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.do(func() { f.forbidden[r] = true })
			errs := everything(t, f)
			seen, err := inspect(t.Context(), f, "ns", Options{})
			if err != nil {
				t.Fatal(err)
			}
			if lacks, err := seen.Missing(t.Context()); err != nil || len(lacks) != 1 || lacks[0] != r {
				t.Errorf("missing: %v, %v", lacks, err)
			}
			if r.Verb == "watch" { // the watch is retried forever, and List reports it
				return
			}
			for _, err := range errs {
				if errors.Is(err, container.ErrSpec) && !container.Transient(err) &&
					strings.Contains(err.Error(), "cannot "+r.Verb) && strings.Contains(err.Error(),
					"grant this right to the director") {
					return
				}
			}
			t.Errorf("without %s: %v", r, errs)
		})
	}
}

// everything uses each part of the API once and returns the errors.
func everything(t *testing.T, f *fake) (errs []error) {
	o := options("f")
	o.Sample = specFor(t, "exit", "0")
	k, err := open(t.Context(), f, o, quick)
	if err != nil {
		return []error{err}
	}
	defer k.Close()
	s := specFor(t, "ignore")
	errs = append(errs, k.Ensure(t.Context(), s))
	if errs[0] == nil && !f.forbidden[Right{"watch", "", "pods", ""}] {
		awaitState(t, k, s.AttemptID, container.StateRunning)
		errs = append(errs, k.FollowOutput(shortly(t), s.AttemptID, func(container.Printed) {}))
		_, err := k.Stop(shortly(t), s.AttemptID, o.Grace, nil)
		errs = append(errs, err)
	}
	_, err = k.Stop(t.Context(), s.AttemptID, 0, nil)
	return append(errs, err)
}

func shortly(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// The director uses every right in Needed, and only these rights.
func TestNoRightIsForNothing(t *testing.T) {
	needBoxes(t)
	t.Parallel()
	f := newFake(t)
	everything(t, f)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range Needed() {
		if f.asked[r] == 0 {
			t.Errorf("%s is unused", r)
		}
		delete(f.asked, r)
	}
	if len(f.asked) > 0 {
		t.Errorf("used but not in Needed: %v", f.asked)
	}
}

// One round checks only some Jobs without a pod, but repeated rounds check all of them.
func TestFewAreAskedForAtOnce(t *testing.T) {
	v := newView(nil, defaultLimits, zap.NewNop())
	const all = 25
	for i := range all {
		v.attempts[fmt.Sprint(i)] = &attempt{job: &batchv1.Job{}, asked: time.Now().Add(-time.Minute)}
	}
	seen := map[string]bool{}
	for range 3 {
		asked := v.podless()
		if len(asked) > askedAtOnce {
			t.Errorf("%d at once", len(asked))
		}
		for _, p := range asked {
			seen[p.id] = true
		}
	}
	if len(seen) != all {
		t.Errorf("checked %d of %d", len(seen), all)
	}
}
