package container

import (
	"context"
	"errors"
	"io"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	apicontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"
	"go.uber.org/zap"
)

// streams is the newest output of one container while somebody reads it.
type streams struct {
	stdout, stderr ring
	close          func()        // ends the reading
	done           chan struct{} // closed after the reading has ended
	whole          bool          // valid after done: read until the container's own end
}

// attach reads the streams of a container that has not started yet.
func (d *Docker) attach(ctx context.Context, t *take, id string) error {
	if t.streams != nil { // of an earlier try to start
		t.streams.close()
		<-t.streams.done
		t.streams = nil
	}
	conn, err := d.api.ContainerAttach(ctx, id, apicontainer.AttachOptions{Stream: true, Stdout: true, Stderr: true})
	if err != nil {
		return failure("attach to "+id, err)
	}
	return d.read(t, id, conn.Reader, conn.Close)
}

// Adopt follows the streams of a running container that an earlier process started, or whose connection broke: to be
// called for each known attempt at boot and after a HintRelist. For one that is followed already, has ended or is absent
// it does nothing. Errors: ErrDaemon; ErrSpec if a container of that name is not of this fleet.
func (d *Docker) Adopt(ctx context.Context, attemptID string) error {
	t, release, err := d.takes.take(ctx, attemptID)
	if err != nil {
		return failure("wait for attempt "+attemptID, err)
	}
	info, found, err := d.lookup(ctx, attemptID)
	if err != nil || !found || !stateOf(info).Live() {
		release(err == nil && t.streams == nil)
		return err
	}
	defer release(false)
	return d.follow(ctx, t, info.ID)
}

// follow replays the log file and goes on with what comes, without a gap between the two, unless somebody reads already.
func (d *Docker) follow(ctx context.Context, t *take, id string) error {
	if t.streams != nil {
		select {
		case <-t.streams.done: // broke off: the log file has what was missed
		default:
			return nil
		}
	}
	// The request's context is the reader's: it must outlive this call.
	reading, stop := context.WithCancel(d.life)
	cancelled := context.AfterFunc(ctx, stop)
	logs, err := d.api.ContainerLogs(reading, id, apicontainer.LogsOptions{ShowStdout: true, ShowStderr: true, Follow: true})
	if !cancelled() && err == nil {
		logs.Close()
		err = ctx.Err()
	}
	if err != nil {
		stop()
		return failure("follow the logs of "+id, err)
	}
	return d.read(t, id, logs, func() {
		stop()
		logs.Close()
	})
}

// read starts the goroutine that owns source until its end, the take's, or Close.
func (d *Docker) read(t *take, id string, source io.Reader, closeSource func()) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		closeSource()
		return failure("read "+id, errors.New("closed"))
	}
	reading, cancel := context.WithCancel(d.life)
	s := &streams{close: cancel, done: make(chan struct{})}
	t.streams = s
	d.pumps.Add(1)
	go func() {
		defer d.pumps.Done()
		defer close(s.done)
		defer cancel()
		unhook := context.AfterFunc(reading, closeSource)
		_, err := stdcopy.StdCopy(&s.stdout, &s.stderr, source)
		s.whole = err == nil && d.ended(reading, id)
		if unhook() {
			closeSource()
		}
	}()
	return nil
}

// ended tells the end of a container from a connection that broke: on an attached stream both look the same. The streams
// of a container that ends do so a moment before the daemon says so. A broken connection is taken for an end only if the
// container ends within the same moment.
func (d *Docker) ended(ctx context.Context, id string) bool {
	if stopped, err := d.awaitEnd(ctx, id, d.limits.settle); err != nil || !stopped {
		return false
	}
	info, err := d.api.ContainerInspect(ctx, id)
	if cerrdefs.IsNotFound(err) {
		return true
	}
	return err == nil && info.State != nil && stateOf(info) == StateExited
}

// collect returns the newest output of a container that has ended: from the rings if they saw its end, else from the log
// file as well. Only a daemon that does not answer is an error; unreadable logs must not keep a container for ever.
func (d *Docker) collect(ctx context.Context, t *take, attemptID, id string) (stdout, stderr []byte, err error) {
	whole := d.wholeStreams(ctx, t)
	stdout, stderr = t.tails()
	if whole {
		return stdout, stderr, nil
	}
	var logged streams
	// No Tail: it counts lines before it separates the streams. The log file's size is bounded, the rings keep the newest.
	logs, err := d.api.ContainerLogs(ctx, id, apicontainer.LogsOptions{ShowStdout: true, ShowStderr: true})
	if err == nil {
		_, err = stdcopy.StdCopy(&logged.stdout, &logged.stderr, logs)
		logs.Close()
	}
	switch {
	case err == nil:
		return longer(logged.stdout.tail(), stdout), longer(logged.stderr.tail(), stderr), nil
	case cerrdefs.IsInternal(err), cerrdefs.IsNotImplemented(err), cerrdefs.IsNotFound(err):
		d.log.Warn("container logs are not readable", zap.String("worker", attemptID), zap.Error(err))
		return stdout, stderr, nil
	default:
		return nil, nil, failure("read the logs of "+attemptID, err)
	}
}

// longer chooses the log file's tail, which is newer, unless the ring has more: then the other stream's flood has pushed
// this one's lines out of the file.
func longer(logged, ring []byte) []byte {
	if len(ring) > len(logged) {
		return ring
	}
	return logged
}

// wholeStreams waits a little for the reader, whose container has ended, and says if it got everything.
func (d *Docker) wholeStreams(ctx context.Context, t *take) bool {
	if t.streams == nil {
		return false
	}
	patience := time.NewTimer(d.limits.streams)
	defer patience.Stop()
	select {
	case <-t.streams.done:
		return t.streams.whole
	case <-patience.C:
	case <-ctx.Done():
	}
	return false
}

// tails are what the rings hold, whatever was missed.
func (t *take) tails() (stdout, stderr []byte) {
	if t.streams == nil {
		return nil, nil
	}
	return t.streams.stdout.tail(), t.streams.stderr.tail()
}
