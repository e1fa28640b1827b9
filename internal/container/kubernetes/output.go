package kubernetes

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"retake/internal/container"
	"retake/internal/container/bundle"
	"retake/internal/sys/ring"
)

// tail holds the newest output of an attempt while its log is being read. A nil tail is empty.
type tail struct {
	kept  *ring.Buffer
	close context.CancelFunc
	done  chan struct{} // closed when reading has ended
}

func newTail(stop context.CancelFunc) *tail {
	return &tail{ring.New(container.TailBytes), stop, make(chan struct{})}
}

func (t *tail) bytes() []byte {
	if t == nil {
		return nil
	}
	return t.kept.Bytes()
}

// enoughLines is a number of lines that covers the newest TailBytes even if every line is empty.
var enoughLines = to(int64(container.TailBytes))

// logs reads the output of attempts.
type logs struct {
	api    cluster
	view   *view
	limits limits
	log    *zap.Logger
}

// readOn reads the log of a running pod to its end in a goroutine. It returns after the reader has started.
func (g *logs) readOn(ctx context.Context, p *corev1.Pod) *tail {
	ctx, cancel := context.WithCancel(ctx)
	t := newTail(cancel)
	log, err := g.api.log(ctx, p.Name, &corev1.PodLogOptions{
		Container: workerName, Follow: true,
		TailLines: enoughLines,
	})
	if err != nil {
		g.log.Warn("could not read pod log; the pod is being deleted", zap.String("pod", p.Name), zap.Error(err))
		close(t.done)
		return t
	}
	g.view.work.Go(func() {
		defer close(t.done)
		defer log.Close()
		_, _ = io.Copy(t.kept, withoutFirst(log))
	})
	return t
}

// withoutFirst returns a log without the line that Enter prints first.
func withoutFirst(log io.Reader) io.Reader {
	r := bufio.NewReaderSize(log, pieceBytes)
	var before bytes.Buffer
	for range mixed {
		piece, err := r.ReadSlice('\n')
		if string(piece) == bundle.FirstLine+"\n" {
			break
		}
		before.Write(piece)
		if err != nil { // the next read gets the error again, or the rest of a long line
			break
		}
	}
	return io.MultiReader(&before, r)
}

// mixed is the number of lines, or pieces of long lines, that are searched for our first line. A node reads the two
// streams of a container concurrently, so early output on the other stream may precede that line.
const mixed = 16

// last returns the newest output of an attempt that is not running. It fails only if the API does not answer, because
// an unreadable log must not block an attempt's removal. If the log is unreadable, it returns the output that was read
// while the attempt ran, or the termination message in the pod's status.
func (g *logs) last(ctx context.Context, a *attempt, attemptID string) ([]byte, error) {
	g.view.mu.Lock()
	p, gone := a.pod, a.podGone
	g.view.mu.Unlock()
	if p == nil {
		return g.seen(a), nil
	}
	term := statusOf(p.Status.ContainerStatuses, workerName).State.Terminated
	if !gone && term != nil {
		kept, err := g.read(ctx, p)
		if err == nil {
			return kept, nil
		}
		if !answered(err) && !errors.Is(err, errNoLog) {
			return nil, failure("read the log of "+attemptID, err)
		}
		g.log.Warn("could not read pod log", zap.String("worker", attemptID), zap.Error(err))
	}
	if seen := g.seen(a); len(seen) > 0 || term == nil {
		return seen, nil
	}
	return io.ReadAll(withoutFirst(strings.NewReader(term.Message)))
}

// seen returns the output that was read while the attempt ran.
func (g *logs) seen(a *attempt) []byte {
	g.view.mu.Lock()
	defer g.view.mu.Unlock()
	return a.tail.bytes()
}

// keep waits for a deleted pod's log to end. It then replaces the attempt's tail with t, unless the old tail is longer.
func (g *logs) keep(a *attempt, t *tail) {
	select {
	case <-t.done:
	case <-time.After(g.limits.streams):
		g.log.Warn("log of deleted pod did not end in time", zap.Int("bytes", len(t.bytes())))
	}
	t.close()
	g.view.mu.Lock()
	defer g.view.mu.Unlock()
	if len(t.bytes()) >= len(a.tail.bytes()) {
		a.tail = t
	}
}

// errNoLog means that the kubelet sent a message instead of the log, because the node has removed the log.
var errNoLog = errors.New("kubernetes: node has removed the log")

// isNoLog reports whether log is the kubelet's message about a missing log.
func isNoLog(log []byte) bool {
	return bytes.HasPrefix(log, []byte("unable to retrieve container logs for ")) ||
		bytes.HasPrefix(log, []byte("failed to try resolving symlinks in path "))
}

func (g *logs) read(ctx context.Context, p *corev1.Pod) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, g.limits.operation)
	defer cancel()
	log, err := g.api.log(ctx, p.Name, &corev1.PodLogOptions{Container: workerName, TailLines: enoughLines})
	if err != nil {
		return nil, err
	}
	defer log.Close()
	kept := ring.New(container.TailBytes)
	if _, err := io.Copy(kept, withoutFirst(log)); err != nil {
		return nil, err
	}
	if all := kept.Bytes(); !isNoLog(all) {
		return all, nil
	}
	return nil, errNoLog
}

// truncated replaces the beginning of a log if the node has discarded it.
const truncated = "(Retake: the node has kept only the newest part of this output.)\n"

// FollowOutput calls take with an attempt's output, from the oldest part that its node still has, until the attempt
// ends or ctx is done. Both streams arrive as stdout. FollowOutput waits for the attempt to start, and returns nil if
// the attempt is absent. Error: ErrCluster, for example if the log ends while the attempt runs; the caller can then
// start over.
func (k *Kubernetes) FollowOutput(ctx context.Context, attemptID string, take func(container.Printed)) error {
	return k.logs.follow(ctx, attemptID, take)
}

func (g *logs) follow(ctx context.Context, attemptID string, take func(container.Printed)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(g.view.ctx, cancel)()
	p, err := g.awaitStart(ctx, attemptID)
	if err != nil || p == nil {
		return err
	}
	doing := "read the output of " + attemptID
	log, err := g.api.log(ctx, p.Name, &corev1.PodLogOptions{Container: workerName, Follow: true, Timestamps: true})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return failure(doing, err)
	}
	defer log.Close()
	t := newTail(cancel)
	g.view.mu.Lock()
	if a := g.view.attempts[attemptID]; a != nil {
		a.tail = t
	}
	g.view.mu.Unlock()
	defer close(t.done)
	if err := readStamped(log, func(c container.Printed) { _, _ = t.kept.Write(c.Data); take(c) }); err != nil {
		return failure(doing, err)
	}
	return g.awaitEnd(ctx, attemptID, doing)
}

// awaitStart waits until an attempt's worker has started, and returns its pod. Nil means that it will never start.
func (g *logs) awaitStart(ctx context.Context, attemptID string) (*corev1.Pod, error) {
	changes, stop := g.view.subscribe()
	defer stop()
	for {
		g.view.mu.Lock()
		a, p, gone := g.view.attempts[attemptID], (*corev1.Pod)(nil), true
		if a != nil && a.known() {
			p, gone = a.pod, a.podGone || a.pod == nil && ended(a.job)
		}
		g.view.mu.Unlock()
		if p != nil && !gone {
			if w := statusOf(p.Status.ContainerStatuses, workerName).State; w.Running != nil || w.Terminated != nil {
				return p, nil
			}
			state, _ := stateOf(p)
			gone = state == container.StateExited
		}
		if gone {
			return nil, ctx.Err()
		}
		select {
		case <-changes:
		case <-ctx.Done():
			return nil, failure("read the output of "+attemptID, ctx.Err())
		}
	}
}

// awaitEnd returns an error if an attempt keeps running although its log has ended. The API may report the end up to a
// second after the log ends.
func (g *logs) awaitEnd(ctx context.Context, attemptID, doing string) error {
	changes, stop := g.view.subscribe()
	defer stop()
	limit := time.NewTimer(g.limits.streams)
	defer limit.Stop()
	for {
		g.view.mu.Lock()
		a := g.view.attempts[attemptID]
		over := a == nil || a.status("").State != container.StateRunning
		g.view.mu.Unlock()
		if over {
			return nil
		}
		select {
		case <-changes:
		case <-limit.C:
			return failure(doing, errors.New("the log ended, but the attempt is still running"))
		case <-ctx.Done():
			return failure(doing, ctx.Err())
		}
	}
}

// pieceBytes is the maximum size of the pieces that a long line is split into.
const pieceBytes = 16 << 10

// readStamped reads a log in which each line begins with a timestamp. One of the first lines is bundle.FirstLine,
// unless the node has discarded the beginning. readStamped removes that line, or passes truncated to take if it is
// missing.
func readStamped(log io.Reader, take func(container.Printed)) error {
	r := bufio.NewReaderSize(log, pieceBytes)
	at, begins := time.Time{}, true
	var held []container.Printed // lines held back until we know whether the beginning is complete
	known := false
	release := func(whole bool) {
		if known = true; !whole && len(held) > 0 {
			take(container.Printed{At: held[0].At, Data: []byte(truncated)})
		}
		for _, p := range held {
			take(p)
		}
		held = nil
	}
	for {
		piece, err := r.ReadSlice('\n')
		if len(piece) > 0 {
			data := piece
			if begins {
				at, data = stamped(piece)
			}
			if !known && len(held) == 0 && at.IsZero() && isNoLog(data) {
				return errNoLog
			}
			begins = piece[len(piece)-1] == '\n'
			switch {
			case known && len(data) > 0:
				take(container.Printed{At: at, Data: data})
			case !known && string(data) == bundle.FirstLine+"\n":
				release(true)
			case !known:
				if held = append(held, container.Printed{At: at, Data: bytes.Clone(data)}); len(held) == mixed {
					release(false)
				}
			}
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			if !known {
				release(false)
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

func stamped(line []byte) (time.Time, []byte) {
	said, data, ok := bytes.Cut(line, []byte(" "))
	at, err := time.Parse(time.RFC3339Nano, string(said))
	if !ok || err != nil {
		return time.Time{}, line
	}
	return at, data
}
