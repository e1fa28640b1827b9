package director

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"retake/internal/fsm"
)

// act carries out one effect. What it returns for a durable effect is told to the machine.
type act func(ctx context.Context, e fsm.Effect) fsm.EffectEnded

// effectRunner runs effects: durable ones of one task in the order in which they come, soft ones at once. A task has
// at most one comment edit waiting, always the newest.
type effectRunner struct {
	ctx   context.Context // of the session; its end interrupts what runs
	acts  map[fsm.EffectKind]act
	ended func(fsm.EffectEnded)
	log   *zap.Logger

	mu       sync.Mutex
	lanes    map[string][]fsm.Effect // by lane; a lane that is in the map has a goroutine
	comments map[fsm.IssueKey]*comment
	wg       sync.WaitGroup
}

// comment is the one edit of a task's comment that is under way or waits.
type comment struct {
	cancel context.CancelFunc
	done   chan struct{}
}

func newEffectRunner(ctx context.Context, acts map[fsm.EffectKind]act, ended func(fsm.EffectEnded), log *zap.Logger) *effectRunner {
	return &effectRunner{
		ctx: ctx, acts: acts, ended: ended, log: log,
		lanes: map[string][]fsm.Effect{}, comments: map[fsm.IssueKey]*comment{},
	}
}

// submit takes an effect and returns at once.
func (r *effectRunner) submit(e fsm.Effect) {
	if r.ctx.Err() != nil {
		return // it is pending in the journal, or soft
	}
	if e.Kind == fsm.DoProgress {
		r.comment(e)
		return
	}
	lane := fmt.Sprint(e.ID, e.Token)
	soft := true
	if e.Kind.Durable() || e.Kind == fsm.DoForget {
		lane, soft = string(e.Task), false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	queue, busy := r.lanes[lane]
	if busy && soft {
		return // the same soft effect is under way
	}
	r.lanes[lane] = append(queue, e)
	if !busy {
		r.wg.Go(func() { r.drain(lane) })
	}
}

// drain runs the effects of one lane until none is left.
func (r *effectRunner) drain(lane string) {
	for {
		r.mu.Lock()
		queue := r.lanes[lane]
		if len(queue) == 0 || r.ctx.Err() != nil {
			delete(r.lanes, lane)
			r.mu.Unlock()
			return
		}
		e := queue[0]
		r.lanes[lane] = queue[1:]
		if len(queue) == 1 {
			r.lanes[lane] = []fsm.Effect{}
		}
		r.mu.Unlock()
		r.run(e)
	}
}

func (r *effectRunner) run(e fsm.Effect) {
	switch e.Kind {
	case fsm.DoDeliver, fsm.DoEscalate, fsm.DoRelease: // they have the last word on the comment
		r.dropComment(e.Task)
	}
	began := time.Now()
	out := r.acts[e.Kind](r.ctx, e)
	if r.ctx.Err() != nil {
		return // interrupted: it is carried out again after the restart
	}
	log := r.log.With(zap.String("issue", string(e.Task)), zap.String("worker", e.Worker), zap.String("effect", e.ID))
	if f := out.Failure; f != nil {
		log.Warn("effect failed", zap.String("reason", string(f.Reason)), zap.String("error", f.Text),
			zap.Bool("transient", f.Transient), zap.Time("until", f.Until))
	} else {
		log.Debug("effect done", zap.Duration("took", time.Since(began)))
	}
	if e.Kind.Durable() {
		out.Task, out.Effect = e.Task, e.ID
		r.ended(out)
	}
}

// comment replaces the task's waiting edit by a newer one.
func (r *effectRunner) comment(e fsm.Effect) {
	ctx, cancel := context.WithCancel(r.ctx)
	c := &comment{cancel: cancel, done: make(chan struct{})}
	r.mu.Lock()
	before := r.comments[e.Task]
	r.comments[e.Task] = c
	r.mu.Unlock()
	r.wg.Go(func() {
		defer close(c.done)
		defer cancel()
		if before != nil {
			before.cancel()
			<-before.done
		}
		if ctx.Err() == nil {
			r.acts[e.Kind](ctx, e)
		}
		r.mu.Lock()
		if r.comments[e.Task] == c {
			delete(r.comments, e.Task)
		}
		r.mu.Unlock()
	})
}

func (r *effectRunner) dropComment(k fsm.IssueKey) {
	r.mu.Lock()
	c := r.comments[k]
	r.mu.Unlock()
	if c != nil {
		c.cancel()
		<-c.done
	}
}

// wait returns when nothing runs any more; the context must have ended.
func (r *effectRunner) wait() { r.wg.Wait() }
