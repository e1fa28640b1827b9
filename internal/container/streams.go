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

// TailBytes is the size of each stream's tail in an Exit. worker_error.v1 carries two tails within the bus's 64 KiB.
const TailBytes = 32 << 10

// streams holds the newest output of one container while a goroutine reads it.
type streams struct {
	stdout, stderr *ring.Buffer
	close          func()        // stops the reader
	done           chan struct{} // closed after reading has stopped
}

// streamReaders reads the output of containers in the background.
type streamReaders struct {
	*engine
	background *background
}

// Adopt follows the streams of a running container that was started by an earlier process or whose connection broke.
// Call it for each known attempt at boot. It does nothing for a container that is already followed, has ended or is
// absent. Errors: ErrDaemon; ErrSpec if a container with that name belongs to another fleet.
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
	return d.readers.follow(ctx, a, info.ID)
}

// follow replays the log file and continues with new output, without a gap, unless a goroutine is already reading.
func (s *streamReaders) follow(ctx context.Context, a *attemptState, id string) error {
	if a.streams != nil {
		select {
		case <-a.streams.done: // the connection broke, but the log file has the missed output
		default:
			return nil
		}
	}
	ctx, asked := context.WithTimeout(ctx, s.limits.operation)
	defer asked()
	// The request's context must outlive this call, because the reader uses it.
	reading, stop := context.WithCancel(s.background.ctx)
	cancelled := context.AfterFunc(ctx, stop)
	logs, err := s.api.ContainerLogs(reading, id, apicontainer.LogsOptions{
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
	return s.read(a, id, logs, func() {
		stop()
		logs.Close()
	})
}

// read starts a goroutine that reads source until the source, the attempt or this process ends.
func (s *streamReaders) read(a *attemptState, id string, source io.Reader, closeSource func()) error {
	reading, cancel := context.WithCancel(s.background.ctx)
	streams := &streams{
		stdout: ring.New(TailBytes), stderr: ring.New(TailBytes), close: cancel, done: make(chan struct{}),
	}
	if !s.background.start(func() {
		defer close(streams.done)
		defer cancel()
		unhook := context.AfterFunc(reading, closeSource)
		_, _ = stdcopy.StdCopy(streams.stdout, streams.stderr, source) // collect reads missed output from the log file
		if unhook() {
			closeSource()
		}
	}) {
		cancel()
		closeSource()
		return failure("read "+id, errors.New("closed"))
	}
	a.streams = streams
	return nil
}

// collect returns the newest output of an ended container from the rings and the log file. It fails only if the daemon
// does not answer: unreadable logs must not block a container's removal.
func (s *streamReaders) collect(ctx context.Context, a *attemptState, attemptID,
	id string,
) (stdout, stderr []byte, err error) {
	stdout, stderr = s.tails(ctx, a)
	logged := streams{stdout: ring.New(TailBytes), stderr: ring.New(TailBytes)}
	// Read the whole log file, which is bounded, because the API's Tail counts the lines of both streams together. The
	// rings have the newest part in any case.
	logs, err := s.api.ContainerLogs(ctx, id, apicontainer.LogsOptions{ShowStdout: true, ShowStderr: true})
	if err == nil {
		_, err = stdcopy.StdCopy(logged.stdout, logged.stderr, logs)
		logs.Close()
	}
	switch {
	case err == nil:
		return longer(logged.stdout.Bytes(), stdout), longer(logged.stderr.Bytes(), stderr), nil
	case cerrdefs.IsInternal(err), cerrdefs.IsNotImplemented(err), cerrdefs.IsNotFound(err):
		s.log.Warn("could not read container logs", zap.String("worker", attemptID), zap.Error(err))
		return stdout, stderr, nil
	default:
		return nil, nil, failure("read the logs of "+attemptID, err)
	}
}

// longer returns the log file's tail, which is newer, unless the ring holds more. That happens if the other stream has
// pushed this one's lines out of the file.
func longer(logged, seen []byte) []byte {
	if len(seen) > len(logged) {
		return seen
	}
	return logged
}

// tails returns the rings' contents. It first waits up to limits.streams for the reader to read all output.
func (s *streamReaders) tails(ctx context.Context, a *attemptState) (stdout, stderr []byte) {
	if a.streams == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.limits.streams)
	defer cancel()
	select {
	case <-a.streams.done:
	case <-ctx.Done():
	}
	return a.streams.stdout.Bytes(), a.streams.stderr.Bytes()
}
