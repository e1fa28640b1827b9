package kubernetes

import (
	"context"
	"syscall"
	"testing"
	"time"

	"retake/internal/container"
	"retake/internal/container/containertest"
)

// quick are limits for a cluster ten times as fast as a real one.
var quick = limits{
	operation: 20 * time.Second, kubelet: 3 * time.Second, confirm: 3 * time.Second, streams: 2 * time.Second,
	backoff: 10 * time.Millisecond,
	stale:   time.Second, relist: time.Minute, podless: 100 * time.Millisecond, poll: 200 * time.Millisecond,
}

func options(fleet string) Options {
	return Options{Fleet: fleet, Owner: "test", WorkerImage: "fake.test/worker:1", Grace: time.Second}
}

func openFake(t testing.TB, f *fake, o Options) *Kubernetes {
	t.Helper()
	k, err := open(context.Background(), f, o, quick)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	return k
}

func specFor(t testing.TB, argv ...string) container.Spec {
	return container.Spec{
		AttemptID: containertest.Name("attempt") + "-1", Task: "acme/widgets#21", Image: "fake.test/probe:1",
		Workdir: "/workspace", Checkout: t.TempDir(),
		Entrypoint: append([]string{container.WorkerPath}, argv...), WorkerBinary: probe, Memory: 64 << 20, CPUs: 0.1,
		Pids: 64, User: "1000:1000", ReadOnly: true,
	}
}

func TestConformanceOfTheFake(t *testing.T) {
	needBoxes(t)
	t.Parallel()
	f := newFake(t)
	containertest.Run(t, containertest.Subject{
		Capabilities: containertest.Capabilities{Adoption: true, Images: true},
		Fleet:        "f", Parallel: true,
		Open:  func(t testing.TB, fleet string) container.Runtime { return openFake(t, f, options(fleet)) },
		Spec:  func(t testing.TB, _ string) container.Spec { return specFor(t) },
		Where: func(_ testing.TB, s container.Spec) string { return f.checkoutOf(s.AttemptID) },
		Kill: func(_ testing.TB, attemptID string) {
			f.do(func() {
				for _, p := range f.allPods {
					if p.Annotations[container.LabelAttempt] == attemptID {
						f.played[p.UID].signal(syscall.SIGKILL)
					}
				}
			})
		},
		Exists: func(_ testing.TB, attemptID string) bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			for _, p := range f.allPods {
				if p.Annotations[container.LabelAttempt] == attemptID {
					return true
				}
			}
			return f.allJobs[jobName(attemptID)] != nil
		},
	})
}
