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
	"retake/internal/safefile"
	"retake/internal/sys/procfs"
	"retake/internal/sys/ring"
)

// sweepLimit is the maximum time for a supervisor to end its worker's leftover processes. After that, Stop ends them
// itself. Unless it is frozen, a supervisor needs only milliseconds.
const sweepLimit = 2 * time.Second

// Stop ends the attempt's worker and all its processes, determines how it ended, removes its directory, and returns
// after the last process has ended. A running worker gets SIGTERM, so that it can end its stages. All processes get
// SIGKILL after grace, or at once if grace is zero or the worker is frozen. For an absent attempt Exit.Known is false.
// Errors: ErrHost (transient) while a process remains; ErrSpec if the attempt belongs to another fleet. After an error,
// the next call takes into account the signals that this call sent.
func (p *Processes) Stop(ctx context.Context, attemptID string, grace time.Duration, record Recorder) (Exit, error) {
	ctx, cancel := context.WithTimeout(ctx, max(grace, 0)+2*p.limits.confirm+p.limits.operation)
	defer cancel()
	a, release, err := p.attempts.acquire(ctx, attemptID)
	if err != nil {
		return Exit{}, hostFailure("wait for attempt "+attemptID, err)
	}
	exit, err := p.stop(ctx, &a.sent, attemptID, grace, record)
	release(err == nil)
	return exit, err
}

func (p *Processes) stop(ctx context.Context, sent *sentSignals, attemptID string, grace time.Duration,
	record Recorder,
) (Exit, error) {
	here, found, err := p.lookup(attemptID)
	if err != nil {
		return Exit{}, err
	}
	if !found {
		return Exit{}, p.removeUnrecorded(attemptID)
	}
	if here.state().Live() {
		if err := p.endWorker(ctx, sent, attemptID, grace); err != nil {
			return Exit{}, err
		}
	}
	if err := p.killLeftovers(ctx, attemptID); err != nil {
		return Exit{}, err
	}
	if here, found, err = p.lookup(attemptID); err != nil || !found {
		return Exit{}, err
	}
	exit := here.ending().exit(*sent)
	if here.lost() { // the worker died with its supervisor, so the exit code is unknown
		exit = Exit{Killed: sent.kill}
	}
	exit.Stdout, exit.Stderr = p.tails(here)
	if err := record.Keep(exit); err != nil {
		return Exit{}, err
	}
	return exit, p.remove(here.dir)
}

// endWorker sends the worker SIGTERM, and SIGKILL after grace. It may return before the worker has ended.
func (p *Processes) endWorker(ctx context.Context, sent *sentSignals, attemptID string, grace time.Duration) error {
	here := &process{}
	ended := func() (bool, error) {
		now, found, err := p.lookup(attemptID)
		if found {
			here = now
		}
		return err == nil && (!found || !here.state().Live()), err
	}
	// A starting worker can only be signalled once it exists.
	if done, err := until(ctx, p.limits.confirm, func() (bool, error) {
		done, err := ended()
		return done || err != nil || here.started != nil, err
	}); err != nil || !done {
		return err
	}
	if here.started == nil {
		return nil
	}
	// The supervisor may also be frozen. Its pid is valid, because a live worker was started since the last boot.
	_, _ = here.started.Supervisor.Signal(syscall.SIGCONT)
	if grace > 0 && here.state() != StatePaused {
		accepted, err := here.signal(syscall.SIGTERM)
		if err != nil {
			return hostFailure("send SIGTERM to "+attemptID, err)
		}
		sent.term = sent.term || accepted
		gone := false
		if _, err := until(ctx, grace, func() (bool, error) {
			gone, err = ended()
			return gone || here.state() == StatePaused, err // a frozen worker cannot react
		}); err != nil || gone {
			return err
		}
	}
	accepted, err := here.signal(syscall.SIGKILL)
	if err != nil {
		return hostFailure("send SIGKILL to "+attemptID, err)
	}
	sent.kill = sent.kill || accepted
	_, err = until(ctx, sweepLimit, ended) // killLeftovers takes over after the limit
	return err
}

// killLeftovers returns after the last process of an ending attempt is gone. The supervisor ends the processes. If it
// is gone or too slow, this process ends them, including the supervisor.
func (p *Processes) killLeftovers(ctx context.Context, attemptID string) error {
	began := time.Now()
	var left []procfs.Process
	done, err := until(ctx, p.limits.confirm, func() (bool, error) {
		here, found, err := p.lookup(attemptID)
		if err != nil || !found {
			return !found, err
		}
		if here.supervised && time.Since(began) < sweepLimit {
			return false, nil
		}
		if !here.supervised && here.ended != nil && here.ended.Clean {
			return true, nil
		}
		if left, err = supervisor.Leftovers(attemptID, here.started); err != nil {
			return false, hostFailure("find the processes of "+attemptID, err)
		}
		for _, l := range left {
			if _, err := l.Signal(syscall.SIGKILL); err != nil {
				p.log.Warn("could not kill process", zap.String("worker", attemptID), zap.Int("pid", l.PID),
					zap.Error(err))
			}
		}
		return len(left) == 0 && !here.supervised, nil
	})
	if err == nil && !done {
		err = hostFailure("stop "+attemptID, fmt.Errorf("%d processes remain after SIGKILL", len(left)))
	}
	return err
}

// until is like pollUntil, but its errors are *Error values.
func until(ctx context.Context, limit time.Duration, ok func() (bool, error)) (bool, error) {
	done, err := pollUntil(ctx, limit, ok)
	if err != nil && errors.Is(err, ctx.Err()) {
		err = hostFailure("wait for a process", err)
	}
	return done, err
}

func (p *Processes) tails(here *process) (stdout, stderr []byte) {
	tail := func(name string) []byte {
		newest := ring.New(TailBytes)
		if err := supervisor.CopyStream(newest, here.dir, name); err != nil {
			p.log.Warn("could not read output", zap.String("worker", here.AttemptID), zap.Error(err))
		}
		return newest.Bytes()
	}
	return tail(supervisor.StdoutFile), tail(supervisor.StderrFile)
}

// removeUnrecorded removes the directory of an interrupted Ensure.
func (p *Processes) removeUnrecorded(attemptID string) error {
	dir := filepath.Join(p.dir, attemptID)
	if _, err := os.Lstat(dir); !attemptName.MatchString(attemptID) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	lock, locked, err := supervisor.Lock(dir)
	if err != nil || !locked {
		return hostFailure("remove "+attemptID, errors.Join(err, errors.New("another process is starting it")))
	}
	defer lock.Close()
	return p.remove(dir)
}

// remove deletes an attempt's directory. It deletes the record first, so that a partly deleted directory is not listed
// as an attempt.
func (p *Processes) remove(dir string) error {
	if err := os.Remove(filepath.Join(dir, recordFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return hostFailure("remove "+dir, err)
	}
	if err := safefile.RemoveAll(dir); err != nil {
		p.log.Warn("could not remove process directory", zap.String("path", dir), zap.Error(err))
	}
	return nil
}
