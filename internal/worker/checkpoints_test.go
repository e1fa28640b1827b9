package worker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/checkpoint"
)

// travels makes the plan's checkout travel. The workdir is empty, and the checkout on the bus has a README.md.
func (w *world) travels(every float64) {
	w.t.Helper()
	cred, err := w.bus.AuthorizeCheckout(w.t.Context(), w.plan.WorkerID)
	if err != nil {
		w.t.Fatal(err)
	}
	w.plan.Bus.JWT = cred.JWT
	dir := w.t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "README.md"), []byte("# widgets\n"), 0o644); err != nil {
		w.t.Fatal(err)
	}
	store := w.checkout()
	put := func(d checkpoint.Digest, data []byte) error { return store.Put(w.t.Context(), d, data) }
	s := checkpoint.Scanner{Dir: dir, Limits: w.limits, Emit: put}
	tree, err := s.Scan(w.t.Context(), true)
	if err != nil {
		w.t.Fatal(err)
	}
	m, err := tree.Encode(put)
	if err == nil {
		err = store.Open(w.t.Context(), bus.OpenCheckout{Worker: w.plan.WorkerID, Start: m.Root, Writes: every > 0},
			nil)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	l := w.limits
	w.plan.Checkout = &wire.PlanCheckout{
		Manifest: m.Root.String(), CheckpointSeconds: every,
		Limits: &wire.CheckoutLimits{
			Files: l.Files, Entries: l.Entries, Depth: l.Depth, PathBytes: l.PathBytes,
			Bytes: l.Bytes,
		},
	}
}

func (w *world) checkout() *bus.CheckoutStore {
	w.t.Helper()
	store, err := w.bus.Checkouts().Open(context.Background(), "k3v9qx2m")
	if err != nil {
		w.t.Fatal(err)
	}
	return store
}

// arrived returns the files of the checkout on the bus.
func (w *world) arrived() (state bus.CheckoutState, files []string) {
	w.t.Helper()
	store := w.checkout()
	state, _, err := store.State(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	m, err := store.Load(context.Background(), state.Manifest, checkpoint.Unlimited)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range m.Tree.Entries {
		if e.Kind == checkpoint.File {
			files = append(files, e.Path)
		}
	}
	return state, files
}

// TestWholeCheckoutTravels checks that the director gets the work before the report, and the report also in the spool.
func TestWholeCheckoutTravels(t *testing.T) {
	w := newWorld(t)
	w.travels(60)
	if code := w.run(t.Context()); code != ExitResult {
		t.Fatalf("exit %d\n%s", code, w.err)
	}
	if all := w.reports(); len(all) != 1 {
		t.Fatalf("got %+v", all)
	}
	state, files := w.arrived()
	if want := []string{".retake/spool/k3v9qx2m-1.0001.json", "README.md", "work-1"}; !slices.Equal(files, want) {
		t.Errorf("got %q, want %q", files, want)
	}
	if state.Attempt != w.plan.WorkerID || state.N == 0 {
		t.Errorf("%+v", state)
	}
}

// TestWholeCheckpointsWhileAStageRuns checks that the work of a running agent is sent. If the bus is down, the worker
// sends the work after the bus has restarted.
func TestWholeCheckpointsWhileAStageRuns(t *testing.T) {
	w := newWorld(t)
	w.travels(0.2)
	w.plan.Stages = w.plan.Stages[:1]
	w.setting(0, programEnv, "waiter")
	done := w.start()
	stubbornPID(t, w.plan.Workdir)
	eventually(t, "a checkpoint", func() bool {
		state, files := w.arrived()
		return state.Attempt != "" && slices.Contains(files, "stubborn")
	})
	w.stopBus()
	if err := errors.Join(os.WriteFile(filepath.Join(w.plan.Workdir, "work"), []byte("done"), 0o644),
		os.WriteFile(filepath.Join(w.plan.Workdir, "go"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	select {
	case code := <-done:
		t.Fatalf("exit %d before the work was stored\n%s", code, w.err)
	case <-time.After(time.Second):
	}
	w.startBus()
	if code := <-done; code != ExitResult {
		t.Fatalf("exit %d\n%s", code, w.err)
	}
	if _, files := w.arrived(); !slices.Contains(files, "work") || len(w.reports()) != 1 {
		t.Errorf("got %q", files)
	}
}

// TestWholeTooMuchIsNoSuccess checks that work beyond a limit is not delivered, by the checks of both worker and
// director, and that the report has the reason.
func TestWholeTooMuchIsNoSuccess(t *testing.T) {
	for name, own := range map[string]bool{"the worker looks": true, "the director looks": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.stopBus()
			w.limits.Files = 5
			w.startBus()
			w.travels(60)
			if !own {
				w.plan.Checkout.Limits = nil
			}
			w.setting(0, programEnv, "leaver")
			w.setting(0, "TEST_LEAVES", `{"a":"x","b":"x","c":"x","d":"x","e":"x","work-1":"x"}`)
			if code := w.run(t.Context()); code != ExitError {
				t.Fatalf("exit %d\n%s", code, w.err)
			}
			if e := w.onlyError(); e.ErrorType != "scope_violation" ||
				!strings.Contains(e.Message, "checkout.max_files") {
				t.Errorf("got %s: %s", e.ErrorType, e.Message)
			}
			state, files := w.arrived()
			if !slices.Equal(files, []string{"README.md"}) || state.Refused == nil ||
				!strings.Contains(state.Refused.Text, "checkout.max_files") {
				t.Errorf("got %q, %+v", files, state.Refused)
			}
		})
	}
}

// TestWholeCheckoutThatIsOnlyRead checks that an attempt that only validates does not send a checkpoint.
func TestWholeCheckoutThatIsOnlyRead(t *testing.T) {
	w := newWorld(t)
	w.travels(0)
	if code := w.run(t.Context()); code != ExitResult {
		t.Fatalf("exit %d\n%s", code, w.err)
	}
	store := w.checkout()
	if state, _, err := store.State(t.Context()); err != nil || state.N != 0 || state.Attempt != "" {
		t.Errorf("%+v, %v", state, err)
	}
}

// TestWholeTerminatedSendsItsWork checks that a terminated worker sends its work, because the directory may be removed
// with the container.
func TestWholeTerminatedSendsItsWork(t *testing.T) {
	w := newWorld(t)
	w.travels(60)
	w.setting(0, programEnv, "stubborn")
	w.plan.StopGraceSeconds = 4
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan ExitCode, 1)
	go func() { done <- w.run(ctx) }()
	stubbornPID(t, w.plan.Workdir)
	stop()
	if code := <-done; code != ExitTerminated {
		t.Errorf("exit %d\n%s", code, w.err)
	}
	if _, files := w.arrived(); !slices.Contains(files, "stubborn") {
		t.Errorf("got %q", files)
	}
}
