package loop

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"retake/internal/fsm"
	"retake/internal/sys/crashpoint"
)

// Executor carries out one effect. The result of a durable effect becomes an event.
type Executor func(ctx context.Context, e fsm.Effect) fsm.EffectEnded

// Runner runs effects. Durable effects of one task run one after another, in the order of Submit. Soft effects start
// at once. A newer edit of a task's comment cancels the running edit and replaces waiting ones.
type Runner struct {
	ctx       context.Context // cancels the running effects when it is done
	executors map[fsm.EffectKind]Executor
	ended     func(fsm.EffectEnded)
	may       func() bool // reports whether this process leads
	log       *zap.Logger

	mu    sync.Mutex
	turns map[string]*turn // newest turn of each lane, until it is done
	wg    sync.WaitGroup
}

// turn is one effect in its lane. It begins when the previous turn of the lane is done.
type turn struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// NewRunner returns a runner that cancels its effects when ctx is done. Effects and outcomes wait until may reports
// that this process leads. ended receives the outcome of each durable effect, reply and comment edit, unless the effect
// was interrupted.
func NewRunner(ctx context.Context, executors map[fsm.EffectKind]Executor, ended func(fsm.EffectEnded),
	may func() bool, log *zap.Logger,
) *Runner {
	return &Runner{
		ctx: ctx, executors: executors, ended: ended, may: may, log: log,
		turns: map[string]*turn{},
	}
}

func commentLane(k fsm.IssueKey) string { return "comment on " + string(k) }

// Submit starts an effect, or queues it in its lane, and returns at once.
func (r *Runner) Submit(e fsm.Effect) {
	if r.ctx.Err() != nil {
		return // a durable effect is still in the journal, and a soft effect may be lost
	}
	lane, comment, ordered := fmt.Sprint(e.ID, e.Token, " ", e.Unheard), e.Kind == fsm.DoProgress, e.Kind.Durable() ||
		e.Kind == fsm.DoForget
	if comment {
		lane = commentLane(e.Task)
	} else if ordered {
		lane = string(e.Task)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.turns[lane]
	if before != nil && !comment && !ordered {
		return // the same soft effect is already running
	}
	ctx, cancel := context.WithCancel(r.ctx)
	t := &turn{cancel: cancel, done: make(chan struct{})}
	r.turns[lane] = t
	r.wg.Go(func() {
		defer close(t.done)
		defer cancel()
		if before != nil {
			if comment {
				before.cancel()
			}
			<-before.done
		}
		if r.leads(ctx) {
			r.run(ctx, e)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.turns[lane] == t {
			delete(r.turns, lane)
		}
	})
}

// leadsEvery is the interval at which a waiting effect checks the lease.
const leadsEvery = 50 * time.Millisecond

// leads waits until this process leads. It returns false when ctx is done. The lease may lapse briefly if a renewal is
// late, for example because of a slow disk. The session continues after such a lapse, so its effects must wait rather
// than fail. If another director takes the lease, ctx ends.
func (r *Runner) leads(ctx context.Context) bool {
	for ctx.Err() == nil && !r.may() {
		select {
		case <-time.After(leadsEvery):
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}

func (r *Runner) run(ctx context.Context, e fsm.Effect) {
	switch e.Kind {
	case fsm.DoDeliver, fsm.DoEscalate, fsm.DoRelease:
		// a pending edit must not overwrite the final comment that these effects write
		r.dropComment(e.Task)
	}
	began := time.Now()
	crashpoint.Reached("effect/" + string(e.Kind) + "/before")
	out := r.executors[e.Kind](ctx, e)
	crashpoint.Reached("effect/" + string(e.Kind) + "/after")
	if !r.leads(ctx) {
		return // interrupted: the effect runs again after a restart, or a newer edit replaces it
	}
	log := r.log.With(zap.String("issue", string(e.Task)), zap.String("worker", e.Worker), zap.String("effect", e.ID))
	if f := out.Failure; f != nil {
		log.Warn("effect failed", zap.String("reason", string(f.Reason)), zap.String("error", f.Text),
			zap.Bool("transient", f.Transient), zap.Time("until", f.Until))
	} else {
		log.Debug("effect done", zap.Duration("took", time.Since(began)))
	}
	// the comment cursor waits for the outcome of a reply, and a comment edit stays due until its outcome arrives
	if e.Kind.Durable() || e.Kind == fsm.DoReply || e.Kind == fsm.DoProgress {
		out.Task, out.Effect = e.Task, e.ID
		r.ended(out)
	}
}

func (r *Runner) dropComment(k fsm.IssueKey) {
	r.mu.Lock()
	t := r.turns[commentLane(k)]
	r.mu.Unlock()
	if t != nil {
		t.cancel()
		<-t.done
	}
}

// Wait returns when all effects have ended. Cancel the runner's context first.
func (r *Runner) Wait() { r.wg.Wait() }
