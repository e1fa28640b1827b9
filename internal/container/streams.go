package container

import (
	"context"
	"errors"
	"io"

	cerrdefs "github.com/containerd/errdefs"
	apicontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"
	"go.uber.org/zap"

	"retake/internal/sys/ring"
)

// TailBytes is how much of each stream is kept for an Exit: worker_error.v1 carries two tails within the bus's 64 KiB.
const TailBytes = 32 << 10

// streams is the newest output of one container while somebody reads it.
type streams struct {
	stdout, stderr *ring.Buffer
	close          func()        // ends the reading
	done           chan struct{} // closed after the reading has ended
}

// Adopt follows the streams of a running container that an earlier process started, or whose connection broke:
// to be called for each known attempt at boot. For one that is followed already, has ended or is absent it does
// nothing. Errors: ErrDaemon; ErrSpec if a container of that name is not of this fleet.
func (d *Docker) Adopt(ctx context.Context, attemptID string) error {
	a, release, err := d.attempts.acquire(ctx, attemptID)
	if err != nil {
		return failure("wait for attempt "+attemptID, err)
	}
	info, found, err := d.lookup(ctx, attemptID)
	if err != nil || !found || !stateOf(info).Live() {
		release(err == nil && a.streams == nil)
		return err
	}
	defer release(false)
	return d.follow(ctx, a, info.ID)
}

// follow replays the log file and goes on with what comes, without a gap between the two, unless somebody reads
// already.
func (d *Docker) follow(ctx context.Context, a *attemptState, id string) error {
	if a.streams != nil {
		select {
		case <-a.streams.done: // broke off: the log file has what was missed
		default:
			return nil
		}
	}
	ctx, asked := context.WithTimeout(ctx, d.limits.operation)
	defer asked()
	// The request's context is the reader's: it must outlive this call.
	reading, stop := context.WithCancel(d.ctx)
	cancelled := context.AfterFunc(ctx, stop)
	logs, err := d.api.ContainerLogs(reading, id, apicontainer.LogsOptions{
		ShowStdout: true, ShowStderr: true,
		Follow: true,
	})
	if !cancelled() && err == nil {
		logs.Close()
		err = ctx.Err()
	}
	if err != nil {
		stop()
		return failure("follow the logs of "+id, err)
	}
	return d.read(a, id, logs, func() {
		stop()
		logs.Close()
	})
}

// read starts the goroutine that owns source until its end, the attempt's, or Close.
func (d *Docker) read(a *attemptState, id string, source io.Reader, closeSource func()) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx.Err() != nil {
		closeSource()
		return failure("read "+id, errors.New("closed"))
	}
	reading, cancel := context.WithCancel(d.ctx)
	s := &streams{stdout: ring.New(TailBytes), stderr: ring.New(TailBytes), close: cancel, done: make(chan struct{})}
	a.streams = s
	d.readers.Go(func() {
		defer close(s.done)
		defer cancel()
		unhook := context.AfterFunc(reading, closeSource)
		_, _ = stdcopy.StdCopy(s.stdout, s.stderr, source) // what was missed is in the log file: see collect
		if unhook() {
			closeSource()
		}
	})
	return nil
}

// collect returns the newest output of a container that has ended, from the rings and the log file. Only a
// daemon that does not answer is an error; unreadable logs must not keep a container for ever.
func (d *Docker) collect(ctx context.Context, a *attemptState, attemptID,
	id string,
) (stdout, stderr []byte, err error) {
	stdout, stderr = d.tails(ctx, a)
	logged := streams{stdout: ring.New(TailBytes), stderr: ring.New(TailBytes)}
	// No Tail: it counts lines before it separates the streams. The log file's size is bounded, the rings keep
	// the newest.
	logs, err := d.api.ContainerLogs(ctx, id, apicontainer.LogsOptions{ShowStdout: true, ShowStderr: true})
	if err == nil {
		_, err = stdcopy.StdCopy(logged.stdout, logged.stderr, logs)
		logs.Close()
	}
	switch {
	case err == nil:
		return longer(logged.stdout.Bytes(), stdout), longer(logged.stderr.Bytes(), stderr), nil
	case cerrdefs.IsInternal(err), cerrdefs.IsNotImplemented(err), cerrdefs.IsNotFound(err):
		d.log.Warn("container logs are not readable", zap.String("worker", attemptID), zap.Error(err))
		return stdout, stderr, nil
	default:
		return nil, nil, failure("read the logs of "+attemptID, err)
	}
}

// longer chooses the log file's tail, which is newer, unless the ring has more: then the other stream's flood
// has pushed this one's lines out of the file.
func longer(logged, seen []byte) []byte {
	if len(seen) > len(logged) {
		return seen
	}
	return logged
}

// tails are what the rings hold of a container that has ended. Its reader is given a moment to see the end.
func (d *Docker) tails(ctx context.Context, a *attemptState) (stdout, stderr []byte) {
	if a.streams == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, d.limits.streams)
	defer cancel()
	select {
	case <-a.streams.done:
	case <-ctx.Done():
	}
	return a.streams.stdout.Bytes(), a.streams.stderr.Bytes()
}
