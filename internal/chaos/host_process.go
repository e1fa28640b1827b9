package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"retake/internal/container"
	"retake/internal/container/supervisor"
)

// processes are workers without an engine.
type processes struct{ dir, fleet string }

func (p processes) open(ctx context.Context) (*container.Processes, error) {
	return container.OpenProcesses(ctx, container.Options{Fleet: p.fleet, Dir: p.dir, SameUser: true})
}

// install copies the agent: the workers' user may not look into the folder that it comes from.
func (p processes) install(_ context.Context, w *world, agent string) (string, error) {
	data, err := os.ReadFile(agent)
	path := filepath.Join(w.dir, "agent")
	if err == nil {
		err = os.WriteFile(path, data, 0o755)
	}
	return path, err
}

func (p processes) settings(w *world) string {
	return fmt.Sprintf("runtime = %q\nprocess_same_user = %t\nuser = %q\nmounts = [%q]\n",
		runtimeProcess, container.CanKeepApart() != nil, workerUser(), w.runs()+":"+w.runs()+":rw")
}

func (p processes) workers(ctx context.Context) (all []worker, err error) {
	if _, err := os.Stat(p.dir); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	r, err := p.open(ctx)
	if err != nil {
		return nil, err
	}
	list, err := r.List(ctx)
	for _, s := range list {
		all = append(all, worker{s.AttemptID, s.Task, s.State.Live()})
	}
	return all, err
}

func (p processes) signal(attempt string, sig syscall.Signal) error {
	started, err := supervisor.ReadStarted(filepath.Join(p.dir, attempt))
	if err != nil || started == nil {
		return errors.Join(err, errors.New("no worker"))
	}
	_, err = started.Worker.Signal(sig)
	return err
}

func (p processes) kill(_ context.Context, attempt string) error {
	return p.signal(attempt, syscall.SIGKILL)
}

func (p processes) pause(_ context.Context, attempt string) error {
	return p.signal(attempt, syscall.SIGSTOP)
}

func (p processes) unpause(_ context.Context, attempt string) error {
	return p.signal(attempt, syscall.SIGCONT)
}

// remove kills supervisor and worker together: nobody writes down how it ended.
func (p processes) remove(_ context.Context, attempt string) error {
	started, err := supervisor.ReadStarted(filepath.Join(p.dir, attempt))
	if err != nil || started == nil {
		return errors.Join(err, errors.New("no worker"))
	}
	_, err = started.Supervisor.Signal(syscall.SIGKILL)
	return err
}

func (p processes) leave(_ context.Context, attempt, like string) error {
	const record = "attempt.json" // of package container
	data, err := os.ReadFile(filepath.Join(p.dir, like, record))
	if err != nil {
		return err
	}
	dir := filepath.Join(p.dir, attempt)
	return errors.Join(os.Mkdir(dir, 0o711),
		os.WriteFile(filepath.Join(dir, record), bytes.ReplaceAll(data, []byte(like), []byte(attempt)), 0o600))
}

var errNoNetwork = errors.New("plain processes have the network of the host")

func (p processes) disconnect(context.Context, string) error   { return errNoNetwork }
func (p processes) reconnect(context.Context, string) error    { return errNoNetwork }
func (p processes) gateway(context.Context) (string, error)    { return "", nil }
func (p processes) networks(context.Context) ([]string, error) { return nil, nil }

func (p processes) clear(ctx context.Context) error {
	if _, err := os.Stat(p.dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	r, err := p.open(ctx)
	if err != nil {
		return err
	}
	list, err := r.List(ctx)
	errs := []error{err}
	for _, s := range list {
		_, err := r.Stop(ctx, s.AttemptID, 0, nil)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

var _ host = processes{}
