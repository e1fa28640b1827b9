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

// Runner runs effects: durable ones of one task in the order in which they come, soft ones at once. At most one comment
// edit of a task waits, always the newest.
type Runner struct {
	ctx       context.Context // its end interrupts what runs
	executors map[fsm.EffectKind]Executor
	ended     func(fsm.EffectEnded)
	may       func() bool // this process leads
	log       *zap.Logger

	mu    sync.Mutex
	turns map[string]*turn // the last of each lane, until it is done
	wg    sync.WaitGroup
}

// turn is one effect in its lane: it begins when the one before it is done.
type turn struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// NewRunner returns a runner whose effects end with ctx. may reports whether this process leads; ended gets the
// outcome of each durable effect.
func NewRunner(ctx context.Context, executors map[fsm.EffectKind]Executor, ended func(fsm.EffectEnded),
	may func() bool, log *zap.Logger,
) *Runner {
	return &Runner{
		ctx: ctx, executors: executors, ended: ended, may: may, log: log,
		turns: map[string]*turn{},
	}
}

func commentLane(k fsm.IssueKey) string { return "comment on " + string(k) }

// Submit takes an effect and returns at once.
func (r *Runner) Submit(e fsm.Effect) {
	if r.ctx.Err() != nil || !r.may() {
		return // it is pending in the journal, or soft
	}
	lane, comment, ordered := fmt.Sprint(e.ID, e.Token), e.Kind == fsm.DoProgress, e.Kind.Durable() ||
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
		return // the same soft effect is under way
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
		if ctx.Err() == nil && r.may() { // it may have waited for long
			r.run(ctx, e)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.turns[lane] == t {
			delete(r.turns, lane)
		}
	})
}

func (r *Runner) run(ctx context.Context, e fsm.Effect) {
	switch e.Kind {
	case fsm.DoDeliver, fsm.DoEscalate, fsm.DoRelease: // they have the last word on the comment
		r.dropComment(e.Task)
	}
	began := time.Now()
	crashpoint.Reached("effect/" + string(e.Kind) + "/before")
	out := r.executors[e.Kind](ctx, e)
	crashpoint.Reached("effect/" + string(e.Kind) + "/after")
	if ctx.Err() != nil || !r.may() {
		return // interrupted: it is carried out again after the restart, or a newer comment says more
	}
	log := r.log.With(zap.String("issue", string(e.Task)), zap.String("worker", e.Worker), zap.String("effect", e.ID))
	if f := out.Failure; f != nil {
		log.Warn("effect failed", zap.String("reason", string(f.Reason)), zap.String("error", f.Text),
			zap.Bool("transient", f.Transient), zap.Time("until", f.Until))
	} else {
		log.Debug("effect done", zap.Duration("took", time.Since(began)))
	}
	if e.Kind.Durable() || e.Kind == fsm.DoReply { // the cursor of what people said waits for it
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

// Wait returns when nothing runs any more; the context must have ended.
func (r *Runner) Wait() { r.wg.Wait() }
