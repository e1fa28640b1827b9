package testbed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"retake/internal/container"
	"retake/internal/container/supervisor"
)

// Processes runs workers as plain processes, without an engine.
type Processes struct {
	Dir   string // directory with the director's process records
	Agent string // copied by Install, because workers cannot read the agent's original directory
	Fleet string

	mu      sync.Mutex
	runtime *container.Processes // nil before the first worker
}

// Install copies the agent.
func (p *Processes) Install(_ context.Context, agent string) (string, error) {
	data, err := os.ReadFile(agent)
	if err == nil {
		err = os.WriteFile(p.Agent, data, 0o755)
	}
	if err != nil {
		return "", fmt.Errorf("testbed: agent: %w", err)
	}
	return p.Agent, nil
}

// Settings implements Host.
func (p *Processes) Settings() string {
	return fmt.Sprintf("runtime = %q\nprocess_same_user = %t\nuser = %q\n", RuntimeProcess,
		container.CanKeepApart() != nil, User())
}

// Gateway implements Host. Workers are on this machine.
func (p *Processes) Gateway(context.Context) (string, error) { return "127.0.0.1", nil }

// open returns the runtime, or nil until a director has created its directory.
func (p *Processes) open(ctx context.Context) (r *container.Processes, err error) {
	if _, err := os.Stat(p.Dir); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.runtime == nil {
		p.runtime, err = container.OpenProcesses(ctx, container.Options{Fleet: p.Fleet, Dir: p.Dir, SameUser: true})
	}
	return p.runtime, err
}

// Workers implements Host.
func (p *Processes) Workers(ctx context.Context) (all []Worker, err error) {
	r, err := p.open(ctx)
	if r == nil || err != nil {
		return nil, err
	}
	list, err := r.List(ctx)
	for _, s := range list {
		all = append(all, Worker{s.AttemptID, s.Task, s.State.Live()})
	}
	return all, err
}

// listEvery is the interval at which Record lists processes. It must poll, because processes do not report their start
// and end.
const listEvery = 20 * time.Millisecond

// Record records changes between lists. It may miss a process that lives for less than listEvery.
func (p *Processes) Record() *Record {
	return NewRecord(func(ctx context.Context, r *Record) error {
		tick := time.NewTicker(listEvery)
		defer tick.Stop()
		before := map[string]bool{}
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return nil
			}
			if list, err := p.Workers(ctx); err == nil {
				before = r.compare(before, list)
			}
		}
	})
}

// signal sends a signal to the worker of a started attempt. If part is not nil, signal calls part instead.
func (p *Processes) signal(attempt string, sig syscall.Signal, part func(*supervisor.Started) error) error {
	started, err := supervisor.ReadStarted(filepath.Join(p.Dir, attempt))
	if err == nil && started == nil {
		err = errors.New("it has no worker")
	}
	if err != nil {
		return fmt.Errorf("testbed: %s: %w", attempt, err)
	}
	if part != nil {
		return part(started)
	}
	_, err = started.Worker.Signal(sig)
	return err
}

// Kill implements Host.
func (p *Processes) Kill(_ context.Context, attempt string) error {
	return p.signal(attempt, syscall.SIGKILL, nil)
}

// Pause implements Host.
func (p *Processes) Pause(_ context.Context, attempt string) error {
	return p.signal(attempt, syscall.SIGSTOP, nil)
}

// Unpause implements Host.
func (p *Processes) Unpause(_ context.Context, attempt string) error {
	return p.signal(attempt, syscall.SIGCONT, nil)
}

// Remove kills the supervisor together with the worker, so that the end is not recorded.
func (p *Processes) Remove(_ context.Context, attempt string) error {
	return p.signal(attempt, syscall.SIGKILL, func(s *supervisor.Started) error {
		_, err := s.Supervisor.Signal(syscall.SIGKILL)
		return err
	})
}

// Leave implements Host.
func (p *Processes) Leave(_ context.Context, attempt, like string) error {
	const record = "attempt.json" // as in package container
	data, err := os.ReadFile(filepath.Join(p.Dir, like, record))
	if err != nil {
		return err
	}
	dir := filepath.Join(p.Dir, attempt)
	return errors.Join(os.Mkdir(dir, 0o711),
		os.WriteFile(filepath.Join(dir, record), bytes.ReplaceAll(data, []byte(like), []byte(attempt)), 0o600))
}

var errNoNetwork = errors.New("testbed: plain processes cannot be disconnected, because they share the host's network")

// Disconnect implements Host.
func (p *Processes) Disconnect(context.Context, string) error { return errNoNetwork }

// Reconnect implements Host.
func (p *Processes) Reconnect(context.Context, string) error { return errNoNetwork }

// Networks implements Host.
func (p *Processes) Networks(context.Context) ([]string, error) { return nil, nil }

// Clear implements Host.
func (p *Processes) Clear(ctx context.Context) error {
	r, err := p.open(ctx)
	if r == nil || err != nil {
		return err
	}
	list, err := r.List(ctx)
	errs := []error{err}
	for _, s := range list {
		_, err := r.Stop(ctx, s.AttemptID, 0, nil)
		errs = append(errs, err)
	}
	var left []string
	list, err = r.List(ctx)
	for _, s := range list {
		left = append(left, "process "+s.AttemptID)
	}
	if errs = append(errs, err); len(left) > 0 {
		errs = append(errs, fmt.Errorf("testbed: left behind: %s", strings.Join(left, ", ")))
	}
	return errors.Join(errs...)
}

// Close implements Host. It leaves the processes running.
func (p *Processes) Close() error { return nil }

var _ Host = (*Processes)(nil)
