package workers

import (
	"context"
	"time"

	"go.uber.org/zap"

	"retake/internal/container"
	"retake/internal/director/loop"
	"retake/internal/fsm"
)

// List reads the runtime's list of containers for the machine. Create it with NewList.
type List struct {
	owner   *loop.Owner
	runtime container.Runtime
	log     *zap.Logger
	hints   loop.Wake
}

// NewList returns a List that has not read the runtime's list yet.
func NewList(owner *loop.Owner, runtime container.Runtime, log *zap.Logger) *List {
	return &List{owner: owner, runtime: runtime, log: log, hints: loop.NewWake()}
}

// listEvery is the longest pause between two reads of the list.
const listEvery = 5 * time.Second

// Hint requests a read of the list. Requests coalesce.
func (l *List) Hint() { l.hints.Signal() }

// Run reads the list regularly and after each hint, until ctx is done. If the engine does not answer, it does not
// send a list, because the containers may still exist.
func (l *List) Run(ctx context.Context) error {
	for {
		select {
		case <-l.hints:
		case <-time.After(listEvery):
		case <-ctx.Done():
			return nil
		}
		asked := l.owner.Clock.Now()
		list, err := l.runtime.List(ctx)
		if err != nil {
			l.log.Warn("could not list containers", zap.Error(err))
			continue
		}
		l.owner.Send(ctx, Listed(asked, list), nil)
	}
}

// Listed returns the event for a list that was requested at asked.
func Listed(asked time.Time, list []container.Status) fsm.ContainersListed {
	l := fsm.ContainersListed{TakenAt: asked}
	for _, c := range list {
		l.Containers = append(l.Containers, fsm.Container{
			Attempt: c.AttemptID, Running: c.State.Live(), Pending: c.State == container.StatePending,
			Waiting: c.Waiting,
		})
	}
	return l
}
