package kubernetes

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"retake/internal/container"
	"retake/internal/container/bundle"
	"retake/internal/sys/ring"
)

// tail is the newest output of an attempt, as somebody reads it. A nil one has nothing.
type tail struct {
	kept  *ring.Buffer
	close context.CancelFunc
	done  chan struct{} // closed at the end of the reading
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

// enoughLines hold the newest TailBytes, however short they are.
var enoughLines = to(int64(container.TailBytes))

// readOn reads the log of a running pod to its end, in a goroutine of its own. It returns when the reading has begun.
func (k *Kubernetes) readOn(ctx context.Context, p *corev1.Pod) *tail {
	ctx, cancel := context.WithCancel(ctx)
	t := newTail(cancel)
	log, err := k.api.log(ctx, p.Name, &corev1.PodLogOptions{
		Container: workerName, Follow: true,
		TailLines: enoughLines,
	})
	if err != nil {
		k.log.Warn("the log of a pod that is being deleted cannot be read", zap.String("pod", p.Name), zap.Error(err))
		close(t.done)
		return t
	}
	k.work.Go(func() {
		defer close(t.done)
		defer log.Close()
		_, _ = io.Copy(t.kept, withoutFirst(log))
	})
	return t
}

// withoutFirst is a log without the line that Enter has printed, if it begins with that.
func withoutFirst(log io.Reader) io.Reader {
	r := bufio.NewReaderSize(log, pieceBytes)
	var before bytes.Buffer
	for range mixed {
		piece, err := r.ReadSlice('\n')
		if string(piece) == bundle.FirstLine+"\n" {
			break
		}
		before.Write(piece)
		if err != nil { // whoever reads on gets it again, or goes on with a long line
			break
		}
	}
	return io.MultiReader(&before, r)
}

// mixed is among how many lines, or pieces of long ones, our first line is looked for: a node reads the two
// streams of a container one beside the other, and what a program writes to the other one at once may come
// before it.
const mixed = 16

// lastOutput is the newest output of an attempt that does not run. Only an API that does not answer is an
// error: a log that cannot be read must not keep an attempt for ever. What else there is then: what was read
// while it ran, or the last words that the pod's status has.
func (k *Kubernetes) lastOutput(ctx context.Context, a *attempt, attemptID string) ([]byte, error) {
	k.mu.Lock()
	p, gone := a.pod, a.podGone
	k.mu.Unlock()
	if p == nil {
		return k.printed(a), nil
	}
	term := statusOf(p.Status.ContainerStatuses, workerName).State.Terminated
	if !gone && term != nil {
		kept, err := k.readLog(ctx, p)
		if err == nil {
			return kept, nil
		}
		if !answered(err) && !errors.Is(err, errNoLog) {
			return nil, failure("read the log of "+attemptID, err)
		}
		k.log.Warn("the log of a pod is not readable", zap.String("worker", attemptID), zap.Error(err))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if seen := a.tail.bytes(); len(seen) > 0 || term == nil {
		return seen, nil
	}
	last, err := io.ReadAll(withoutFirst(bytes.NewReader([]byte(term.Message))))
	return last, err
}

// printed is what was read of an attempt's output while it ran.
func (k *Kubernetes) printed(a *attempt) []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	return a.tail.bytes()
}

// errNoLog: the node has no log of the container any more. It says so in the place of the log.
var errNoLog = errors.New("the node has it no more")

// isNoLog reports whether a log is that word of a kubelet's.
func isNoLog(log []byte) bool {
	return bytes.HasPrefix(log, []byte("unable to retrieve container logs for ")) ||
		bytes.HasPrefix(log, []byte("failed to try resolving symlinks in path "))
}

func (k *Kubernetes) readLog(ctx context.Context, p *corev1.Pod) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, k.limits.operation)
	defer cancel()
	log, err := k.api.log(ctx, p.Name, &corev1.PodLogOptions{Container: workerName, TailLines: enoughLines})
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

// truncated stands where a log begins whose beginning the node has thrown away.
const truncated = "(Retake: the node has kept only the newest part of this output.)\n"

// FollowOutput hands over what an attempt has printed, as far as its node has it, and then what it prints,
// until it has ended, without an error, or ctx ends. Both streams come as one, which is called stdout. One that
// waits for its start is waited for; one that is absent has printed nothing. Errors: ErrCluster, also if the
// log broke off: all of it can be asked for again.
func (k *Kubernetes) FollowOutput(ctx context.Context, attemptID string, take func(container.Printed)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(k.ctx, cancel)()
	p, err := k.awaitStart(ctx, attemptID)
	if err != nil || p == nil {
		return err
	}
	doing := "read the output of " + attemptID
	log, err := k.api.log(ctx, p.Name, &corev1.PodLogOptions{Container: workerName, Follow: true, Timestamps: true})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return failure(doing, err)
	}
	defer log.Close()
	t := newTail(cancel)
	k.mu.Lock()
	if a := k.attempts[attemptID]; a != nil {
		a.tail = t
	}
	k.mu.Unlock()
	defer close(t.done)
	if err := readStamped(log, func(c container.Printed) { _, _ = t.kept.Write(c.Data); take(c) }); err != nil {
		return failure(doing, err)
	}
	return k.wasTheEnd(ctx, attemptID, doing)
}

// awaitStart waits until the worker of an attempt has started; nil: there is none.
func (k *Kubernetes) awaitStart(ctx context.Context, attemptID string) (*corev1.Pod, error) {
	changes, stop := k.subscribe()
	defer stop()
	for {
		k.mu.Lock()
		a, p, gone := k.attempts[attemptID], (*corev1.Pod)(nil), true
		if a != nil && a.known() {
			p, gone = a.pod, a.podGone || a.pod == nil && ended(a.job)
		}
		k.mu.Unlock()
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

// wasTheEnd is an error if an attempt goes on whose log has ended. The word of its end comes up to a second later.
func (k *Kubernetes) wasTheEnd(ctx context.Context, attemptID, doing string) error {
	changes, stop := k.subscribe()
	defer stop()
	limit := time.NewTimer(k.limits.streams)
	defer limit.Stop()
	for {
		k.mu.Lock()
		a := k.attempts[attemptID]
		over := a == nil || a.status("").State != container.StateRunning
		k.mu.Unlock()
		if over {
			return nil
		}
		select {
		case <-changes:
		case <-limit.C:
			return failure(doing, errors.New("its log ended, and it goes on"))
		case <-ctx.Done():
			return failure(doing, ctx.Err())
		}
	}
}

// pieceBytes bounds what is handed over at once of a long line.
const pieceBytes = 16 << 10

// readStamped reads a log whose lines have their times in front. One of the first is ours, unless what came
// before was thrown away.
func readStamped(log io.Reader, take func(container.Printed)) error {
	r := bufio.NewReaderSize(log, pieceBytes)
	at, begins := time.Time{}, true
	var held []container.Printed // until it is known whether this is the beginning
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
