package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	retake "retake/internal/container"
	"retake/internal/container/supervisor"
)

// processes are workers without an engine.
type processes struct {
	*retake.Processes
	dir string
}

// processesDir is where a director keeps what it knows of processes, in the folder of a run.
func processesDir(dir string) string { return filepath.Join(dir, "data", "processes") }

func openProcesses(ctx context.Context, fleet, dir string) (*processes, error) {
	p, err := retake.OpenProcesses(ctx, retake.Options{Fleet: fleet, Dir: dir, SameUser: true})
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	return &processes{p, dir}, nil
}

// installAgent copies the agent into the folder of the run: the worker's user may not look into the one that it
// comes from.
func (p *processes) installAgent(_ context.Context, agent string) (string, error) {
	data, err := os.ReadFile(agent)
	if err != nil {
		return "", fmt.Errorf("demo: agent: %w", err)
	}
	path := filepath.Join(filepath.Dir(filepath.Dir(p.dir)), filepath.Base(agentPath))
	if err := os.WriteFile(path, data, 0o755); err != nil {
		return "", fmt.Errorf("demo: agent: %w", err)
	}
	return path, nil
}

func (p *processes) gateway(ctx context.Context) (string, error) { return p.EnsureNetwork(ctx) }

func (p *processes) settings(s *testbed) string {
	return fmt.Sprintf("runtime = %q\nprocess_same_user = %t\nuser = %q\nmounts = [%s]\n", runtimeProcess,
		retake.CanKeepApart() != nil, s.user, s.mounts(s.cache.dir))
}

func (p *processes) sections(*testbed) (string, error) { return "", nil }

// env: home and temporary files are the runtime's.
func (p *processes) env(s *testbed) map[string]string {
	return map[string]string{"GOCACHE": s.cache.dir}
}

// listEvery is how often the demo looks at processes, which tell nobody when they begin and end.
const listEvery = 20 * time.Millisecond

// recordEvents writes down what it sees; what is shorter than a glance is not there.
func (p *processes) recordEvents() *containerLog {
	ctx, cancel := context.WithCancel(context.Background())
	l := &containerLog{end: cancel}
	l.wg.Go(func() {
		tick := time.NewTicker(listEvery)
		defer tick.Stop()
		before := map[string]bool{}
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			if list, err := p.List(ctx); err == nil {
				before = l.compare(before, list)
			}
		}
	})
	return l
}

// compare adds what has happened since the last list, which is given as attempt id → lives. Deaths come first: on a
// busy machine an attempt can end and the next one begin between two lists.
func (l *containerLog) compare(before map[string]bool, list []retake.Status) map[string]bool {
	now, at := map[string]bool{}, time.Now()
	for _, s := range list {
		now[s.AttemptID] = s.State.Live()
	}
	for attempt, lived := range before {
		if lived && !now[attempt] {
			l.add(containerEvent{action: "die", attempt: attempt, task: l.taskOf(attempt), at: at})
		}
	}
	for _, s := range list {
		lived, known := before[s.AttemptID]
		one := containerEvent{attempt: s.AttemptID, task: s.Task, at: at}
		if !known {
			one.action = "create"
			l.add(one)
		}
		if s.State.Live() && !lived {
			one.action = "start"
			l.add(one)
		}
	}
	return now
}

func (p *processes) keeps(s *testbed, file string) (bool, error) {
	return inCheckouts(s.checkouts(), file)
}

func (p *processes) inject(_ context.Context, attempt string, h fault) error {
	started, err := supervisor.ReadStarted(filepath.Join(p.dir, attempt))
	if err != nil || started == nil {
		return fmt.Errorf("demo: %s: no worker: %w", attempt, err)
	}
	_, err = started.Worker.Signal(map[fault]syscall.Signal{
		faultKill:   syscall.SIGKILL,
		faultFreeze: syscall.SIGSTOP,
	}[h])
	return err
}

func (p *processes) workers(ctx context.Context) (out []string, err error) {
	list, err := p.List(ctx)
	for _, s := range list {
		out = append(out, "process "+s.AttemptID)
	}
	return out, err
}

func (p *processes) clear(ctx context.Context) error {
	list, err := p.List(ctx)
	errs := []error{err}
	for _, s := range list {
		_, err := p.Stop(ctx, s.AttemptID, 0, nil)
		errs = append(errs, err)
	}
	left, err := p.workers(ctx)
	errs = append(errs, err)
	if len(left) > 0 {
		errs = append(errs, fmt.Errorf("demo: left behind: %s", strings.Join(left, ", ")))
	}
	return errors.Join(errs...)
}

func (p *processes) close() error { return p.Close() }

var _ host = (*processes)(nil)
