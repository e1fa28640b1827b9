package director

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus/wire"
	"retake/internal/crashpoint"
	"retake/internal/fsm"
)

// executors is the table of what carries out which kind of effect.
func (s *session) executors() map[fsm.EffectKind]executor {
	all := map[fsm.EffectKind]executor{
		fsm.DoClaim:       s.warmed(s.claim),
		fsm.DoRecheck:     s.warmed(s.recheck),
		fsm.DoStart:       s.withinQuota(s.start),
		fsm.DoStop:        s.stop,
		fsm.DoDeliver:     s.withinQuota(s.received(s.deliver)),
		fsm.DoEscalate:    s.received(s.escalate),
		fsm.DoRelease:     s.received(s.release),
		fsm.DoRemind:      s.remind,
		fsm.DoWelcome:     s.welcome,
		fsm.DoRefuse:      s.refuse,
		fsm.DoFence:       s.fence,
		fsm.DoProbe:       s.probe,
		fsm.DoRemove:      s.remove,
		fsm.DoReadIssue:   s.readIssue,
		fsm.DoProgress:    s.progress,
		fsm.DoReadAnswers: s.readAnswers,
		fsm.DoReadReview:  s.readReview,
		fsm.DoReply:       s.reply,
		fsm.DoReclaim:     s.reclaim,
		fsm.DoTidy:        s.tidy,
		fsm.DoPause:       s.control(wire.Pause{}),
		fsm.DoResume:      s.control(wire.Resume{}),
		fsm.DoForget:      s.forget,
	}
	for kind, run := range all {
		all[kind] = s.awaitDisk(run)
	}
	return all
}

// executor carries out one effect. For a durable effect its result becomes an event.
type executor func(ctx context.Context, e fsm.Effect) fsm.EffectEnded

// effectRunner runs effects: durable ones of one task in the order in which they come, soft ones at once. A task has
// at most one comment edit waiting, always the newest.
type effectRunner struct {
	ctx       context.Context // of the session; its end interrupts what runs
	executors map[fsm.EffectKind]executor
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

func newEffectRunner(ctx context.Context, executors map[fsm.EffectKind]executor, ended func(fsm.EffectEnded),
	log *zap.Logger,
) *effectRunner {
	return &effectRunner{
		ctx: ctx, executors: executors, ended: ended, may: func() bool { return true }, log: log,
		turns: map[string]*turn{},
	}
}

func commentLane(k fsm.IssueKey) string { return "comment on " + string(k) }

// submit takes an effect and returns at once.
func (r *effectRunner) submit(e fsm.Effect) {
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

func (r *effectRunner) run(ctx context.Context, e fsm.Effect) {
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

func (r *effectRunner) dropComment(k fsm.IssueKey) {
	r.mu.Lock()
	t := r.turns[commentLane(k)]
	r.mu.Unlock()
	if t != nil {
		t.cancel()
		<-t.done
	}
}

// wait returns when nothing runs any more; the context must have ended.
func (r *effectRunner) wait() { r.wg.Wait() }

// remove ends a container of this fleet that no task knows.
func (s *session) remove(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	_, err := s.runtime.Stop(ctx, e.Worker, 0, nil)
	if err == nil {
		s.log.Info("removed a container that no task knows", zap.String("worker", e.Worker))
	}
	s.revoke(ctx, e.Worker)
	return orFailed(fsm.EffectEnded{}, err)
}

// revokeTimeout bounds the wait for the bus: what it does not know yet it is told as soon as it can be reached.
const revokeTimeout = 5 * time.Second

// revoke shuts a worker out of the bus.
func (s *session) revoke(ctx context.Context, worker string) {
	ctx, cancel := context.WithTimeout(ctx, revokeTimeout)
	defer cancel()
	if err := s.bus.Revoke(ctx, worker); err != nil {
		s.log.Warn("a worker's credential is good until the bus is told", zap.String("worker", worker), zap.Error(err))
	}
}

// forgetFor is how long the removal of a checkout is tried again, such as one where a process that had not
// ended goes on to write. The issue's next claim waits for it; what is left then is removed at the next start.
const forgetFor = 30 * time.Second

// forget removes what a claim that is over has left.
func (s *session) forget(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	s.revoke(ctx, e.Worker)
	s.reports.drop(e.Worker)
	return orFailed(fsm.EffectEnded{}, retry(ctx, pauses(time.Second, 8*time.Second), forgetFor,
		func() error { return errors.Join(s.mounted(ctx, e.Nonce), s.workspace.Remove(ctx, e.Nonce)) },
		func(err error, wait time.Duration) {
			s.log.Info("a checkout is still there, trying again", zap.String("issue", string(e.Task)),
				zap.Duration("in", wait), zap.Error(err))
		}))
}

// retryTransient tries until it works, or never will: whoever asked waits for nothing else, and would not ask again.
func (s *session) retryTransient(ctx context.Context, try func() error) fsm.EffectEnded {
	for {
		err := try()
		if err == nil {
			return fsm.EffectEnded{}
		}
		f := failed(err).Failure
		if !f.Transient {
			return fsm.EffectEnded{Failure: f}
		}
		select {
		case <-time.After(max(time.Until(f.Until), s.setup().GitHub.Poll)):
		case <-ctx.Done():
			return fsm.EffectEnded{}
		}
	}
}

func orFailed(ok fsm.EffectEnded, err error) fsm.EffectEnded {
	if err != nil {
		return failed(err)
	}
	return ok
}
