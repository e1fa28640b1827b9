package kubernetes

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"retake/internal/container"
)

// lists returns the number of pod lists.
func (f *fake) lists() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[Right{"list", "", "pods", ""}]
}

// After any fault of a watch, List is soon correct again, and only 410 Gone costs a list request.
func TestWatchFaults(t *testing.T) {
	needBoxes(t)
	t.Parallel()
	forget := func(f *fake) { f.oldest, f.history = f.version, nil }
	for _, c := range []struct {
		name  string
		fault func(*fake)
		lists int
	}{
		{"it ends", func(f *fake) { f.cut = f.watches + 1 }, 0},
		{"it ends, and the API forgets its version", func(f *fake) {
			f.cut = f.watches + 1
			f.next()
			forget(f)
		}, 1},
		{"it begins late", func(f *fake) { f.cut, f.late = f.watches+1, 300*time.Millisecond }, 0},
		{"the API is briefly down", func(f *fake) {
			f.away = true
			time.AfterFunc(200*time.Millisecond, func() { f.do(func() { f.away = false }) })
		}, 0},
		{"the API is down and forgets the version", func(f *fake) {
			f.away = true
			f.next()
			forget(f)
			time.AfterFunc(200*time.Millisecond, func() { f.do(func() { f.away = false }) })
		}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			k := openFake(t, f, options("f"))
			s := running(t, f, k)
			before := f.lists()
			for range 3 {
				f.do(func() { c.fault(f) })
				time.Sleep(50 * time.Millisecond)
				eventually(t, "the watch resumes", func() bool {
					k.view.mu.Lock()
					defer k.view.mu.Unlock()
					return k.view.broken.IsZero()
				})
			}
			f.do(func() { f.played[f.only(t).UID].signal(9) })
			awaitState(t, k, s.AttemptID, container.StateExited)
			if n := f.lists() - before; n < c.lists || n > 3*c.lists {
				t.Errorf("pods were listed %d times, want %d to %d", n, c.lists, 3*c.lists)
			}
		})
	}
}

// After a broken watch, List shows all changes that it missed, here an ended attempt and a new one.
func TestListAfterGone(t *testing.T) {
	needBoxes(t)
	t.Parallel()
	f := newFake(t)
	patient := quick
	patient.stale = time.Minute
	k, err := open(t.Context(), f, options("f"), patient)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	other := openFake(t, f, options("f"))
	goes := ensured(t, k, specFor(t, "ignore"))
	awaitState(t, k, goes.AttemptID, container.StateRunning)
	f.do(func() { f.forbidden[Right{"watch", "", "pods", ""}], f.cut = true, f.watches+1 })
	comes := specFor(t, "ignore")
	if err := other.Ensure(t.Context(), comes); err != nil {
		t.Fatal(err)
	}
	f.do(func() { f.removeJob(f.allJobs[jobName(goes.AttemptID)], true) })
	eventually(t, "one attempt is gone and one is new", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		p := f.only(t)
		return len(f.allPods) == 1 && p.Annotations[container.LabelAttempt] == comes.AttemptID &&
			p.Status.Phase == corev1.PodRunning
	})
	f.do(func() {
		f.oldest, f.history = f.version, nil
		delete(f.forbidden, Right{"watch", "", "pods", ""})
	})
	awaitState(t, k, comes.AttemptID, container.StateRunning)
	awaitState(t, k, goes.AttemptID, "")
}

// List returns an error instead of an outdated list, because callers would take running attempts for ended.
func TestStaleListIsAnError(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	k := openFake(t, f, options("f"))
	f.do(func() { f.away = true })
	var err error
	eventually(t, "an error", func() bool { _, err = k.List(t.Context()); return err != nil })
	if !errors.Is(err, container.ErrCluster) || !container.Transient(err) ||
		!strings.Contains(err.Error(), "https://fake has not answered for") {
		t.Errorf("got %v", err)
	}
	f.do(func() { f.away = false })
	eventually(t, "a list", func() bool { _, err := k.List(t.Context()); return err == nil })
}

// For an idle fleet, the director only keeps the watch open.
func TestQuietFleetAsksNothing(t *testing.T) {
	needBoxes(t)
	t.Parallel()
	f := newFake(t)
	k := openFake(t, f, options("f"))
	s := running(t, f, k)
	count := func() (n int) {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, m := range f.asked {
			n += m
		}
		return n
	}
	before := count()
	for range 100 {
		statusNow(t, k, s.AttemptID)
		time.Sleep(5 * time.Millisecond)
	}
	if n := count() - before; n > 0 {
		t.Errorf("%d requests", n)
	}
}

// An Ensure that was interrupted between the Job and its Secret leaves a pod that cannot start. The next Ensure
// completes it, and a Stop removes it.
func TestEnsureThatWasCutOff(t *testing.T) {
	needBoxes(t)
	t.Parallel()
	secrets := Right{"create", "", "secrets", ""}
	for _, again := range []bool{true, false} {
		f := newFake(t)
		k := openFake(t, f, options("f"))
		f.do(func() { f.forbidden[secrets] = true })
		s := specFor(t, "input")
		s.Stdin = []byte("the plan")
		if err := k.Ensure(t.Context(), s); err == nil {
			t.Error("no error")
		}
		awaitState(t, k, s.AttemptID, container.StatePending)
		f.do(func() { delete(f.forbidden, secrets) })
		if !again {
			if exit := stoppedAt(t, f, k, s, 0); exit.Known {
				t.Errorf("got %+v", exit)
			}
			continue
		}
		ensured(t, k, s)
		awaitState(t, k, s.AttemptID, container.StateExited)
		if exit := stoppedAt(t, f, k, s, 0); !strings.HasPrefix(string(exit.Stdout), "8 bytes ") {
			t.Errorf("got %+v", exit)
		}
	}
}

// If the answer to a creation is lost, the next Ensure finds that Job instead of creating another.
func TestLostAnswer(t *testing.T) {
	needBoxes(t)
	t.Parallel()
	f := newFake(t)
	k := openFake(t, f, options("f"))
	f.do(func() { f.lostReply = true })
	s := specFor(t, "exit", "0")
	if err := k.Ensure(t.Context(), s); !errors.Is(err, container.ErrCluster) || !container.Transient(err) {
		t.Errorf("got %v", err)
	}
	ensured(t, k, s)
	awaitState(t, k, s.AttemptID, container.StateExited)
	stoppedAt(t, f, k, s, 0)
	if n := f.asked[Right{"create", "batch", "jobs", ""}]; n != 1 {
		t.Errorf("%d jobs exist", n)
	}
}

func TestForeignOwnerIsRefused(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	k := openFake(t, f, options("f"))
	s := ensured(t, k, specFor(t, "exit", "0"))
	o := options("f")
	o.Owner = "another"
	if _, err := open(t.Context(), f, o, quick); !errors.Is(err, container.ErrSpec) ||
		!strings.Contains(err.Error(), jobName(s.AttemptID)) {
		t.Errorf("got %v", err)
	}
}

// Other users of the cluster can see the Job and the pod, so these must not contain the input or the variables. The
// files in the pod's volume must not contain them once the worker runs.
func TestInputIsNowhereElse(t *testing.T) {
	needBoxes(t)
	t.Parallel()
	f := newFake(t)
	k := openFake(t, f, options("f"))
	s := specFor(t, "obey")
	s.Stdin, s.Env = []byte("nobody-shall-read-this"), []string{"KEY=nor-this-one"}
	ensured(t, k, s)
	awaitState(t, k, s.AttemptID, container.StateRunning)
	eventually(t, "it runs", func() bool { return exists(f.checkoutOf(s.AttemptID) + "/ready") })
	f.mu.Lock()
	shown := f.allJobs[jobName(s.AttemptID)].String() + f.only(t).String()
	f.mu.Unlock()
	for what, text := range map[string]string{
		"objects": shown,
		"files":   allFiles(t, volumeDir(f.dir+"/"+string(f.only(t).UID), memoryVolume)),
	} {
		for _, secret := range []string{"nobody-shall-read-this", "nor-this-one"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s is in the %s", secret, what)
			}
		}
	}
}
