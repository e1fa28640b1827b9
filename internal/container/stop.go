package container

import (
	"context"
	"errors"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	apicontainer "github.com/docker/docker/api/types/container"
	"go.uber.org/zap"

	"retake/internal/sys/crashpoint"
)

// pollEvery is the interval at which we check whether a container or process has ended.
const pollEvery = 20 * time.Millisecond

// Recorder records how an attempt ended, before Stop removes its last trace. Without it, the result would be lost if
// the director was killed right after the removal. If it fails, Stop also fails, keeps the attempt, and can be
// called again. It may be nil.
type Recorder func(Exit) error

// Keep calls r unless it is nil.
func (r Recorder) Keep(x Exit) error {
	if r == nil {
		return nil
	}
	return r(x)
}

// Stop ends the attempt's container, determines how it ended, removes it, and returns after the daemon has confirmed
// the removal. It sends a running container SIGTERM, then SIGKILL after grace; if grace is zero, only SIGKILL. It kills
// a paused container at once. Exit.Known is false for an absent container. Errors: ErrDaemon (transient) while the end
// or the removal is unconfirmed; ErrSpec if a container with that name belongs to another fleet. The next call
// continues where this one stopped.
func (d *Docker) Stop(ctx context.Context, attemptID string, grace time.Duration, record Recorder) (Exit, error) {
	ctx, cancel := context.WithTimeout(ctx, max(grace, 0)+2*d.limits.confirm+d.limits.operation)
	defer cancel()
	a, release, err := d.attempts.acquire(ctx, attemptID)
	if err != nil {
		return Exit{}, failure("wait for attempt "+attemptID, err)
	}
	exit, err := d.stop(ctx, a, attemptID, grace, record)
	if err == nil && a.streams != nil {
		a.streams.close()
	}
	release(err == nil)
	return exit, err
}

func (d *Docker) stop(ctx context.Context, a *attemptState, attemptID string, grace time.Duration,
	record Recorder,
) (Exit, error) {
	info, found, err := d.lookup(ctx, attemptID)
	if err != nil {
		return Exit{}, err
	}
	if !found { // never created, or removed externally
		var exit Exit
		exit.Stdout, exit.Stderr = d.readers.tails(ctx, a)
		return exit, nil
	}
	if state := stateOf(info); state != StateExited && state != StateCreated && state != StateRemoving {
		if err := d.end(ctx, a, info, attemptID, grace); err != nil {
			return Exit{}, err
		}
		if info, found, err = d.lookup(ctx, attemptID); err != nil {
			return Exit{}, err
		}
		if !found {
			return d.stop(ctx, a, attemptID, 0, record)
		}
	}
	exit, err := d.examine(ctx, a, info, attemptID)
	if err == nil {
		err = record.Keep(exit)
	}
	if err != nil {
		return Exit{}, err
	}
	if err := d.remove(ctx, info.ID, attemptID); err != nil {
		return Exit{}, err
	}
	d.ooms.forget(info.ID)
	return exit, nil
}

// end ends a live container and returns when the daemon reports that it is not running.
func (e *engine) end(ctx context.Context, a *attemptState, info apicontainer.InspectResponse, attemptID string,
	grace time.Duration,
) error {
	// A paused container cannot handle SIGTERM, so do not wait for it.
	if grace > 0 && stateOf(info) != StatePaused {
		accepted, err := e.signal(ctx, info.ID, attemptID, "SIGTERM")
		if err != nil {
			return err
		}
		a.sent.term = a.sent.term || accepted
		if ended, err := e.awaitEnd(ctx, info.ID, grace); err != nil || ended {
			return err
		}
	}
	accepted, err := e.signal(ctx, info.ID, attemptID, "SIGKILL")
	if err != nil {
		return err
	}
	a.sent.kill = a.sent.kill || accepted
	if now, err := e.api.ContainerInspect(ctx, info.ID); err == nil && now.State != nil && now.State.Paused {
		// Frozen processes end only when they are resumed. Newer daemons resume them after a kill.
		if err := e.api.ContainerUnpause(ctx, info.ID); err != nil {
			e.log.Debug("could not unpause container after SIGKILL", zap.String("worker", attemptID), zap.Error(err))
		}
	}
	ended, err := e.awaitEnd(ctx, info.ID, e.limits.confirm)
	if err == nil && !ended {
		err = failure("stop "+attemptID, errors.New("the container is still running after SIGKILL"))
	}
	return err
}

// examine determines how a container ended.
func (d *Docker) examine(ctx context.Context, a *attemptState, info apicontainer.InspectResponse,
	attemptID string,
) (Exit, error) {
	state := stateOf(info)
	if state.Live() {
		return Exit{}, failure("stop "+attemptID, errors.New("the container is running again"))
	}
	e := ending{state: state, exitCode: info.State.ExitCode, oom: info.State.OOMKilled, startError: info.State.Error}
	exit := e.exit(a.sent)
	if state == StateExited && !exit.OOM {
		exit.OOM = d.ooms.happened(ctx, info, exit)
	}
	if state == StateCreated { // it never had output, and its streams never end
		return exit, nil
	}
	var err error
	exit.Stdout, exit.Stderr, err = d.readers.collect(ctx, a, attemptID, info.ID)
	return exit, err
}

// remove removes an ended container with its anonymous volumes and waits for the daemon's 404.
func (e *engine) remove(ctx context.Context, id, attemptID string) error {
	ctx, cancel := context.WithTimeout(ctx, e.limits.confirm)
	defer cancel()
	if err := e.removeHelper(ctx, attemptID); err != nil { // left by an interrupted Ensure
		return err
	}
	// A conflict means that a removal is already in progress. The loop below waits for it.
	crashpoint.Reached("container/remove/before")
	err := e.api.ContainerRemove(ctx, id, apicontainer.RemoveOptions{RemoveVolumes: true})
	crashpoint.Reached("container/remove/after")
	if err != nil && !cerrdefs.IsNotFound(err) && !cerrdefs.IsConflict(err) {
		return failure("remove "+attemptID, err)
	}
	gone, err := pollUntil(ctx, e.limits.confirm, func() (bool, error) {
		_, err := e.api.ContainerInspect(ctx, id)
		return cerrdefs.IsNotFound(err), err
	})
	switch {
	case gone:
		return nil
	case err != nil && ctx.Err() == nil:
		return failure("confirm the removal of "+attemptID, err)
	}
	return failure("remove "+attemptID, errors.New("the daemon still lists it"))
}

// pollUntil polls ok until it is true, for at most limit. It stops on an error and when ctx is done.
func pollUntil(ctx context.Context, limit time.Duration, ok func() (bool, error)) (bool, error) {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if done, err := ok(); done || err != nil {
			return done, err
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return false, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}
