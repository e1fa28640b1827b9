package kubernetes

import (
	"context"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// output returns the worker's output as the API returns a log. It supports the options for a tail, times and following.
func (q *played) output(ctx context.Context, f *fake, o *corev1.PodLogOptions) io.ReadCloser {
	r, w := io.Pipe()
	f.work.Go(func() {
		at := 0
		q.mu.Lock()
		if o.TailLines != nil {
			at = max(0, len(q.lines)-int(*o.TailLines))
		}
		q.mu.Unlock()
		for {
			q.mu.Lock()
			lines, over := q.lines[at:], q.closed
			q.mu.Unlock()
			for _, l := range lines {
				text := l.text
				if o.Timestamps {
					text = l.at.Format(time.RFC3339Nano) + " " + text
				}
				if _, err := w.Write([]byte(text)); err != nil {
					return
				}
			}
			at += len(lines)
			if over || !o.Follow {
				w.Close()
				return
			}
			select {
			case <-ctx.Done():
				w.CloseWithError(ctx.Err())
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	return r
}

// played is the process that runs as a container of the fake.
type played struct {
	mu     sync.Mutex
	lines  []line
	closed bool // the output has ended

	pid     int
	ended   chan struct{}
	exit    int
	reason  string // replaces Completed or Error as the reason of the end; guarded by mu
	last    string // path of its termination message
	began   bool   // guarded by fake.mu, like logGone
	logGone bool
}

type line struct {
	at   time.Time
	text string
}

func (q *played) signal(s syscall.Signal) {
	select {
	case <-q.ended:
	default:
		_ = syscall.Kill(q.pid, s)
	}
}

func (q *played) terminated() corev1.ContainerStateTerminated {
	t := corev1.ContainerStateTerminated{ExitCode: int32(q.exit), Reason: "Completed", FinishedAt: metav1.Now()}
	if q.exit != 0 {
		t.Reason = "Error"
	}
	q.mu.Lock()
	if q.reason != "" {
		t.Reason = q.reason
	}
	q.mu.Unlock()
	if text, _ := os.ReadFile(q.last); len(text) > 0 {
		t.Message = string(text)
	} else if q.exit != 0 {
		q.mu.Lock()
		for _, l := range q.lines[max(0, len(q.lines)-80):] {
			t.Message += l.text
		}
		q.mu.Unlock()
		t.Message = t.Message[max(0, len(t.Message)-2048):]
	}
	return t
}
