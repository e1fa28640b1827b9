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
)

// processes are workers without an engine.
type processes struct {
	*retake.Processes
	dir string
}

// processesDir is where a director keeps what it knows of processes, in the folder of a run.
func processesDir(dir string) string { return filepath.Join(dir, "data", "processes") }

func openProcesses(ctx context.Context, fleet, dir string) (*processes, error) {
	p, err := retake.OpenProcesses(ctx, retake.Options{Fleet: fleet, Dir: dir})
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	return &processes{p, dir}, nil
}

// bring copies the agent into the folder of the run: the worker's user may not look into the one that it comes from.
func (p *processes) bring(_ context.Context, agent string) (string, error) {
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

func (p *processes) settings(s *site) string {
	return fmt.Sprintf("runtime = %q\nuser = %q\nmounts = [%s]\n", runtimeProcess, s.user, s.mounts(s.cache.dir))
}

// env: home and temporary files are the runtime's.
func (p *processes) env(s *site) map[string]string { return map[string]string{"GOCACHE": s.cache.dir} }

// listEvery is how often the demo looks at processes, which tell nobody when they begin and end.
const listEvery = 20 * time.Millisecond

// record writes down what it sees; what is shorter than a glance is not there.
func (p *processes) record() *lives {
	ctx, cancel := context.WithCancel(context.Background())
	l := &lives{end: cancel}
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

// compare adds what has happened since the last list: that said of each worker whether it lives. Deaths come first: on a
// busy machine an attempt can end and the next one begin between two lists.
func (l *lives) compare(before map[string]bool, list []retake.Status) map[string]bool {
	now, at := map[string]bool{}, time.Now()
	for _, s := range list {
		now[s.AttemptID] = s.State.Live()
	}
	for attempt, lived := range before {
		if lived && !now[attempt] {
			l.add(life{action: "die", attempt: attempt, task: l.taskOf(attempt), at: at})
		}
	}
	for _, s := range list {
		lived, known := before[s.AttemptID]
		one := life{attempt: s.AttemptID, task: s.Task, at: at}
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

func (p *processes) harm(_ context.Context, attempt string, h harm) error {
	return p.Signal(attempt, map[harm]syscall.Signal{harmKill: syscall.SIGKILL, harmFreeze: syscall.SIGSTOP}[h])
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
