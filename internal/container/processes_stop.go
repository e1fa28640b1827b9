package container

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"go.uber.org/zap"

	"retake/internal/container/supervisor"
)

// sweepPatience is how long a supervisor may take to end what its dead worker has left, before it is done from here: it needs
// milliseconds, unless it is frozen itself.
const sweepPatience = 2 * time.Second

// Stop ends the attempt's worker and everything that it has started, collects how it ended, removes its folder, and returns
// once nothing is left. A running worker gets SIGTERM, for it to end its stages, and grace (0: none), then all get
// SIGKILL; a frozen one is killed at once. Absent: Exit{Known: false}. Errors: ErrHost (transient) while a process is
// left; ErrSpec if it is another fleet's. Signals already sent are remembered for the next call.
func (p *Processes) Stop(ctx context.Context, attemptID string, grace time.Duration, record Recorder) (Exit, error) {
	ctx, cancel := context.WithTimeout(ctx, max(grace, 0)+2*p.limits.confirm+p.limits.operation)
	defer cancel()
	ours, release, err := p.takes.take(ctx, attemptID)
	if err != nil {
		return Exit{}, hostFailure("wait for attempt "+attemptID, err)
	}
	exit, err := p.stop(ctx, ours, attemptID, grace, record)
	p.reap()
	release(err == nil)
	return exit, err
}

func (p *Processes) stop(ctx context.Context, ours *sent, attemptID string, grace time.Duration, record Recorder) (Exit, error) {
	here, found, err := p.lookup(attemptID)
	if err != nil {
		return Exit{}, err
	}
	if !found {
		return Exit{}, p.removeUnborn(attemptID)
	}
	if here.state().Live() {
		if err := p.endWorker(ctx, ours, attemptID, grace); err != nil {
			return Exit{}, err
		}
	}
	if err := p.silence(ctx, attemptID); err != nil {
		return Exit{}, err
	}
	if here, found, err = p.lookup(attemptID); err != nil || !found {
		return Exit{}, err
	}
	exit := here.ending().exit(*ours)
	if here.lost() { // its supervisor died with it; whatever code stands here is nobody's
		exit = Exit{Killed: ours.kill}
	}
	exit.Stdout, exit.Stderr = p.tails(here)
	if err := record.Keep(exit); err != nil {
		return Exit{}, err
	}
	return exit, p.remove(here.dir)
}

// endWorker makes the worker end, or at least leaves nothing undone that should make it.
func (p *Processes) endWorker(ctx context.Context, ours *sent, attemptID string, grace time.Duration) error {
	here := &process{}
	ended := func() (bool, error) {
		now, found, err := p.lookup(attemptID)
		if found {
			here = now
		}
		return err == nil && (!found || !here.state().Live()), err
	}
	// A worker that is just being started can be told only when it is there.
	if done, err := p.until(ctx, p.limits.confirm, func() (bool, error) {
		done, err := ended()
		return done || err != nil || here.started != nil, err
	}); err != nil || !done {
		return err
	}
	if here.started == nil {
		return nil
	}
	_, _ = here.started.Supervisor.Signal(syscall.SIGCONT) // if somebody froze it, too; it lives, so this is its boot
	if grace > 0 && here.state() != StatePaused {
		accepted, err := here.signal(syscall.SIGTERM)
		if err != nil {
			return hostFailure("send SIGTERM to "+attemptID, err)
		}
		ours.term = ours.term || accepted
		gone := false
		if _, err := p.until(ctx, grace, func() (bool, error) {
			gone, err = ended()
			return gone || here.state() == StatePaused, err // a frozen one cannot obey
		}); err != nil || gone {
			return err
		}
	}
	accepted, err := here.signal(syscall.SIGKILL)
	if err != nil {
		return hostFailure("send SIGKILL to "+attemptID, err)
	}
	ours.kill = ours.kill || accepted
	_, err = p.until(ctx, sweepPatience, ended) // not in time: silence goes on
	return err
}

// silence returns when no process of an attempt, whose worker has been told to end, is left. The supervisor does it; if it
// is gone, or does not, it is done from here, to the supervisor too.
func (p *Processes) silence(ctx context.Context, attemptID string) error {
	began := time.Now()
	var left []supervisor.Process
	done, err := p.until(ctx, p.limits.confirm, func() (bool, error) {
		here, found, err := p.lookup(attemptID)
		if err != nil || !found {
			return !found, err
		}
		if here.supervised && time.Since(began) < sweepPatience {
			return false, nil
		}
		if !here.supervised && here.ended != nil && here.ended.Clean {
			return true, nil
		}
		if left, err = supervisor.Leftovers(attemptID, here.started); err != nil {
			return false, hostFailure("look for processes of "+attemptID, err)
		}
		for _, l := range left {
			if _, err := l.Signal(syscall.SIGKILL); err != nil {
				p.log.Warn("process not killed", zap.String("worker", attemptID), zap.Int("worker", l.PID), zap.Error(err))
			}
		}
		return len(left) == 0 && !here.supervised, nil
	})
	if err == nil && !done {
		err = hostFailure("stop "+attemptID, fmt.Errorf("%d processes are still there after SIGKILL", len(left)))
	}
	return err
}

// until polls a condition, at most for limit. Its error, and the end of ctx, end the wait.
func (p *Processes) until(ctx context.Context, limit time.Duration, ok func() (bool, error)) (bool, error) {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		p.reap()
		if done, err := ok(); done || err != nil {
			return done, err
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return false, nil
		case <-ctx.Done():
			return false, hostFailure("wait for a process", ctx.Err())
		}
	}
}

func (p *Processes) tails(here *process) (stdout, stderr []byte) {
	tail := func(name string) []byte {
		var newest ring
		if err := supervisor.CopyStream(&newest, here.dir, name); err != nil {
			p.log.Warn("output is not readable", zap.String("worker", here.AttemptID), zap.Error(err))
		}
		return newest.tail()
	}
	return tail(supervisor.StdoutFile), tail(supervisor.StderrFile)
}

// removeUnborn removes the folder of an Ensure that was cut off before it was one.
func (p *Processes) removeUnborn(attemptID string) error {
	dir := filepath.Join(p.dir, attemptID)
	if _, err := os.Lstat(dir); !attemptName.MatchString(attemptID) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	lock, ours, err := supervisor.Lock(dir)
	if err != nil || !ours {
		return hostFailure("remove "+attemptID, errors.Join(err, errors.New("somebody is making it")))
	}
	defer lock.Close()
	return p.remove(dir)
}

// remove makes the folder disappear at once, and then takes its time.
func (p *Processes) remove(dir string) error {
	gone := filepath.Join(p.dir, gonePrefix+filepath.Base(dir))
	err := removeTree(gone) // of a namesake, which cannot be
	if err == nil {
		err = os.Rename(dir, gone)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return hostFailure("remove "+dir, err)
	}
	if err := removeTree(gone); err != nil {
		p.log.Warn("what is left of a process cannot be removed", zap.String("path", gone), zap.Error(err))
	}
	return nil
}

// removeTree removes a folder, also one with folders in it that their own owner may not write: Go's module cache is such.
func removeTree(dir string) error {
	err := os.RemoveAll(dir)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, _ error) error {
		if e != nil && e.IsDir() { // visited before it is read
			_ = os.Chmod(path, 0o700)
		}
		return nil // what cannot be reached shows in the second try
	})
	return os.RemoveAll(dir)
}

// EnsureImage has nothing to do: processes run from this machine's own files.
func (p *Processes) EnsureImage(context.Context, string) error { return nil }
