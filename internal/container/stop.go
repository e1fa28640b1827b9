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

// pollEvery is how often the daemon, or the machine, is asked whether something is gone yet.
const pollEvery = 20 * time.Millisecond

// Recorder keeps how an attempt ended before the last trace of it is removed; what is not kept then is lost if
// the process is killed a moment later. Its error ends Stop with nothing removed, so that it can be called
// again. nil: nobody cares.
type Recorder func(Exit) error

// Keep calls r, if there is one.
func (r Recorder) Keep(x Exit) error {
	if r == nil {
		return nil
	}
	return r(x)
}

// Stop ends the attempt's container, collects how it ended, removes it, and returns once the daemon has
// confirmed that it is gone. A running one gets SIGTERM and grace (0: none), then SIGKILL; a paused one is
// killed at once. Absent: Exit{Known: false}. Errors: ErrDaemon (transient) while the end or the removal is not
// confirmed; ErrSpec if a container of that name is not of this fleet. Whatever was learnt is kept for the next
// call.
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
	if !found { // removed by somebody else, or never there
		var exit Exit
		exit.Stdout, exit.Stderr = d.tails(ctx, a)
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
	d.mu.Lock()
	delete(d.ooms, info.ID)
	d.mu.Unlock()
	return exit, nil
}

// end makes a live container end, and returns once the daemon reports that it does not run.
func (d *Docker) end(ctx context.Context, a *attemptState, info apicontainer.InspectResponse, attemptID string,
	grace time.Duration,
) error {
	// A paused container does not see a SIGTERM: it would only wait out its grace.
	if grace > 0 && stateOf(info) != StatePaused {
		accepted, err := d.signal(ctx, info.ID, attemptID, "SIGTERM")
		if err != nil {
			return err
		}
		a.sent.term = a.sent.term || accepted
		if ended, err := d.awaitEnd(ctx, info.ID, grace); err != nil || ended {
			return err
		}
	}
	accepted, err := d.signal(ctx, info.ID, attemptID, "SIGKILL")
	if err != nil {
		return err
	}
	a.sent.kill = a.sent.kill || accepted
	if now, err := d.api.ContainerInspect(ctx, info.ID); err == nil && now.State != nil && now.State.Paused {
		// Frozen processes die when they are thawed. Newer daemons do it by themselves.
		if err := d.api.ContainerUnpause(ctx, info.ID); err != nil {
			d.log.Debug("unpause after the kill", zap.String("worker", attemptID), zap.Error(err))
		}
	}
	ended, err := d.awaitEnd(ctx, info.ID, d.limits.confirm)
	if err == nil && !ended {
		err = failure("stop "+attemptID, errors.New("it still runs after SIGKILL"))
	}
	return err
}

// signal sends a signal. Not accepted: the container did not run any more.
func (d *Docker) signal(ctx context.Context, id, attemptID, name string) (accepted bool, err error) {
	err = d.api.ContainerKill(ctx, id, name)
	switch {
	case err == nil:
		return true, nil
	case cerrdefs.IsConflict(err), cerrdefs.IsNotFound(err):
		return false, nil
	case cerrdefs.IsInternal(err) && ctx.Err() == nil:
		// E.g. the process ended between the daemon's look and its kill. The wait that follows finds out.
		d.log.Warn("signal was not delivered", zap.String("worker", attemptID), zap.String("signal", name),
			zap.Error(err))
		return false, nil
	default:
		return false, failure("send "+name+" to "+attemptID, err)
	}
}

// awaitEnd waits until the daemon reports that the container does not run (or is gone), at most for limit.
func (d *Docker) awaitEnd(ctx context.Context, id string, limit time.Duration) (bool, error) {
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	result, failed := d.api.ContainerWait(waiting, id, apicontainer.WaitConditionNotRunning)
	// Exactly one of the two answers, also after the limit; leaving earlier would leave the client's goroutine behind.
	select {
	case r := <-result:
		if r.Error != nil {
			return false, failure("wait for "+id, errors.New(r.Error.Message))
		}
		return true, nil
	case err := <-failed:
		switch {
		case cerrdefs.IsNotFound(err):
			return true, nil
		case waiting.Err() != nil && ctx.Err() == nil:
			return false, nil
		default:
			return false, failure("wait for "+id, err)
		}
	}
}

// examine finds out how a container that does not run ended.
func (d *Docker) examine(ctx context.Context, a *attemptState, info apicontainer.InspectResponse,
	attemptID string,
) (Exit, error) {
	state := stateOf(info)
	if state.Live() {
		return Exit{}, failure("stop "+attemptID, errors.New("it runs again"))
	}
	e := ending{state: state, exitCode: info.State.ExitCode, oom: info.State.OOMKilled, startError: info.State.Error}
	exit := e.exit(a.sent)
	if state == StateExited && !exit.OOM {
		exit.OOM = d.oomHappened(ctx, info, exit)
	}
	if state == StateCreated { // it wrote nothing, and its streams never end
		return exit, nil
	}
	var err error
	exit.Stdout, exit.Stderr, err = d.collect(ctx, a, attemptID, info.ID)
	return exit, err
}

// remove removes a container that does not run, with its anonymous volumes, and waits for the daemon's 404.
func (d *Docker) remove(ctx context.Context, id, attemptID string) error {
	ctx, cancel := context.WithTimeout(ctx, d.limits.confirm)
	defer cancel()
	if err := d.removeHelper(ctx, attemptID); err != nil { // of an Ensure that was cut off
		return err
	}
	// A conflict: its removal is under way already, and either ends or shows in the inspection.
	crashpoint.Reached("container/remove/before")
	err := d.api.ContainerRemove(ctx, id, apicontainer.RemoveOptions{RemoveVolumes: true})
	crashpoint.Reached("container/remove/after")
	if err != nil && !cerrdefs.IsNotFound(err) && !cerrdefs.IsConflict(err) {
		return failure("remove "+attemptID, err)
	}
	gone, err := pollUntil(ctx, d.limits.confirm, func() (bool, error) {
		_, err := d.api.ContainerInspect(ctx, id)
		return cerrdefs.IsNotFound(err), err
	})
	switch {
	case gone:
		return nil
	case err != nil && ctx.Err() == nil:
		return failure("confirm the removal of "+attemptID, err)
	}
	return failure("remove "+attemptID, errors.New("the daemon still knows it"))
}

// pollUntil asks again and again whether something is so, at most for limit. An error ends it, and so does the
// end of ctx.
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
