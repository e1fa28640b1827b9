package director

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/container"
	"retake/internal/fsm"
)

// fakeRuntime is a runtime with goroutines as containers, which speak the worker's protocol. It outlives directors,
// as a real runtime does.
type fakeRuntime struct {
	play  func(ctx context.Context, w *fakeWorker) (exit int)
	early func(w *fakeWorker) (exit int) // above 0, the worker ends before its first message; may be nil

	dataDir string // the director's data directory, for travelling checkouts

	mu       sync.Mutex
	workers  map[string]*fakeWorker
	made     []string       // every attempt that was ever started, in order
	broken   error          // returned by List and when a director starts; may be nil
	room     chan struct{}  // closed when the cluster has room for workers; nil counts as closed
	stops    map[string]int // how often the runtime received a stop for an attempt
	changes  chan struct{}
	noEvents chan error // an error ends the current Watch
	wg       sync.WaitGroup
}

func newFakeRuntime(play func(ctx context.Context, w *fakeWorker) int) *fakeRuntime {
	return &fakeRuntime{
		play: play, workers: map[string]*fakeWorker{}, stops: map[string]int{},
		changes: make(chan struct{}, 64), noEvents: make(chan error),
	}
}

func (h *fakeRuntime) Adopt(context.Context, string) error { return nil }
func (h *fakeRuntime) Close() error                        { return nil }
func (h *fakeRuntime) Workdir(s container.Spec) string     { return s.Workdir }

// FollowOutput passes on the output of a worker so far, and continues until the worker has ended.
func (h *fakeRuntime) FollowOutput(ctx context.Context, id string, take func(container.Printed)) error {
	for n := 0; ctx.Err() == nil; {
		h.mu.Lock()
		a := h.workers[id]
		if a == nil {
			h.mu.Unlock()
			return nil
		}
		more, ended := slices.Clone(a.printed[n:]), a.ended
		h.mu.Unlock()
		for _, p := range more {
			take(p)
		}
		if n += len(more); ended {
			return nil
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// print adds to the output of a worker.
func (h *fakeRuntime) print(a *fakeWorker, stream, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a.printed = append(a.printed, container.Printed{
		At: time.Now(), Stderr: stream == wire.StreamStderr,
		Data: []byte(text),
	})
}

// mark prints the line by which a worker announces the next stage.
func (h *fakeRuntime) mark(a *fakeWorker, n int, stage string) {
	for _, stream := range []string{wire.StreamStdout, wire.StreamStderr} {
		h.print(a, stream, wire.StageMark{N: n, At: wire.At(time.Now()), Stage: stage, Run: 1}.Line(a.plan.SignKey,
			a.plan.WorkerID, stream))
	}
}

func (h *fakeRuntime) EnsureNetwork(context.Context) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return "127.0.0.1", h.broken
}

func (h *fakeRuntime) Watch(ctx context.Context, changed func()) error {
	for {
		select {
		case <-h.changes:
			changed()
		case err := <-h.noEvents:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// begun counts the created containers.
func (h *fakeRuntime) begun() int { return len(h.attempts()) }

// attempts lists the attempts with a created container, in the order of creation.
func (h *fakeRuntime) attempts() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.made)
}

func (h *fakeRuntime) Ensure(_ context.Context, s container.Spec) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, there := h.workers[s.AttemptID]; there {
		return nil
	}
	a := &fakeWorker{
		spec: s, checkout: s.Checkout, task: s.Task, stop: make(chan string, 8),
		behind: make(chan wire.SyncRequired, 64),
	}
	if err := json.Unmarshal(s.Stdin, &a.plan); err != nil {
		return err
	}
	if a.checkout == "" { // it travels, but a played worker is still there
		nonce, _, _ := fsm.ParseAttemptID(s.AttemptID)
		a.checkout = filepath.Join(h.dataDir, "tasks", nonce, "checkout")
	}
	ctx, kill := context.WithCancel(context.Background())
	a.kill = kill
	h.workers[s.AttemptID] = a
	h.made = append(h.made, s.AttemptID)
	h.wg.Go(func() {
		exit := h.live(ctx, a)
		h.mu.Lock()
		defer h.mu.Unlock()
		a.ended, a.exit = true, exit
		if ctx.Err() != nil {
			a.exit, a.signal = 137, "SIGKILL"
		}
		h.changes <- struct{}{}
	})
	return nil
}

// live connects, sends hello until it is welcomed, keeps a heartbeat going, and plays the worker.
func (h *fakeRuntime) live(ctx context.Context, a *fakeWorker) int {
	if h.room != nil {
		select {
		case <-h.room:
		case <-ctx.Done():
			return 1
		}
	}
	a.runs.Store(true)
	if h.early != nil {
		if exit := h.early(a); exit > 0 {
			return exit
		}
	}
	client, err := a.dial()
	for ; err != nil; client, err = a.dial() {
		select {
		case <-ctx.Done():
			return 1
		case <-time.After(50 * time.Millisecond):
		}
	}
	defer client.Close()
	a.client = client
	hello := wire.Hello{ProtocolVersion: wire.ProtocolVersion, Worker: wire.HelloWorker{
		WorkerID:  a.plan.WorkerID,
		AttemptID: a.plan.WorkerID,
	}}
	for {
		ask, cancel := context.WithTimeout(ctx, time.Second)
		p, err := client.Hello(ask, hello)
		cancel()
		if _, ok := p.(*wire.Welcome); ok && err == nil {
			break
		}
		if ctx.Err() != nil {
			return 1
		}
	}
	var beat sync.WaitGroup
	defer beat.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	beat.Go(func() {
		for ctx.Err() == nil {
			if !a.lost.Load() {
				_ = client.Heartbeat(a.heartbeat())
			}
			select {
			case <-time.After(200 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	return h.play(ctx, a)
}

func (h *fakeRuntime) List(context.Context) ([]container.Status, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.broken != nil {
		return nil, h.broken
	}
	var all []container.Status
	for id, a := range h.workers {
		s := container.Status{AttemptID: id, Task: a.task, State: container.StateRunning}
		switch {
		case a.ended:
			s.State = container.StateExited
		case !a.runs.Load() && h.room != nil:
			s.State, s.Waiting = container.StatePending, noRoom
		}
		all = append(all, s)
	}
	return all, nil
}

func (h *fakeRuntime) Find(ctx context.Context, id string) (container.Status, bool, error) {
	all, err := h.List(ctx)
	i := slices.IndexFunc(all, func(x container.Status) bool { return x.AttemptID == id })
	if i < 0 {
		return container.Status{}, false, err
	}
	return all[i], true, err
}

func (h *fakeRuntime) Warm(context.Context) {}

// breakWatch ends the Watch that is under way.
func (h *fakeRuntime) breakWatch(err error) { h.noEvents <- err }

// fail makes every later list fail with err, or succeed again if err is nil.
func (h *fakeRuntime) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.broken = err
}

func (h *fakeRuntime) EnsureImage(context.Context, string) error { return nil }

func (h *fakeRuntime) Stop(_ context.Context, id string, _ time.Duration,
	record container.Recorder,
) (container.Exit, error) {
	h.mu.Lock()
	a := h.workers[id]
	h.stops[id]++
	h.mu.Unlock()
	if a == nil {
		return container.Exit{}, nil
	}
	if a.lost.Load() {
		return container.Exit{}, &container.Error{
			Kind: container.ErrUnconfirmed, Transient: true, Doing: "stop " + id,
			Cause: errors.New("node node-3 does not answer"),
		}
	}
	h.mu.Lock()
	alive := !a.ended
	h.mu.Unlock()
	a.kill()
	for { // wait until the worker's goroutine has ended
		h.mu.Lock()
		if a.ended {
			break
		}
		h.mu.Unlock()
		time.Sleep(time.Millisecond)
	}
	exit := container.Exit{Known: true, ExitCode: a.exit, Signal: a.signal, Killed: alive}
	h.mu.Unlock()
	if err := record.Keep(exit); err != nil {
		return container.Exit{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.workers, id)
	return exit, nil
}

// noRoom is the message about attempts that wait.
const noRoom = "0/3 nodes are available: 3 Insufficient memory."

// lose disconnects an attempt's node, or reconnects it.
func (h *fakeRuntime) lose(id string, away bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if a := h.workers[id]; a != nil {
		a.lost.Store(away)
	}
}

// stopped returns how often the runtime received a stop for an attempt, and whether any part of that attempt remains.
func (h *fakeRuntime) stopped(id string) (times int, there bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stops[id], h.workers[id] != nil
}

// killFromOutside ends a container from outside.
func (h *fakeRuntime) killFromOutside(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if a := h.workers[id]; a != nil {
		a.kill()
	}
}

// running returns the attempt that runs for an issue, or "".
func (h *fakeRuntime) running(task string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, a := range h.workers {
		if a.task == task && !a.ended {
			return id
		}
	}
	return ""
}

func (h *fakeRuntime) close() {
	h.mu.Lock()
	for _, a := range h.workers {
		a.kill()
	}
	h.mu.Unlock()
	h.wg.Wait()
}
