package container

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"
)

// watchEvery is how often Watch looks: a few files per attempt.
const watchEvery = 200 * time.Millisecond

// Watch calls hint, from one goroutine, for what happens to this fleet's processes, until ctx ends; it returns ctx's
// error. It begins with a HintRelist.
func (p *Processes) Watch(ctx context.Context, hint func(Hint)) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var before []Status
	for began, failing := false, false; ; {
		now, err := p.List(ctx)
		switch {
		case err == nil && !began:
			hint(Hint{Kind: HintRelist})
			began = true
		case err == nil:
			for _, h := range hintsBetween(before, now) {
				hint(h)
			}
		case !failing:
			p.log.Warn("processes cannot be watched", zap.Error(err))
		}
		if failing = err != nil; !failing {
			before = now
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// hintsBetween says what happened between two lists.
func hintsBetween(before, now []Status) (hints []Hint) {
	for _, was := range before {
		hint := Hint{AttemptID: was.AttemptID, ContainerID: was.ContainerID}
		i := slices.IndexFunc(now, func(s Status) bool { return s.AttemptID == was.AttemptID })
		if was.State.Live() && (i < 0 || !now[i].State.Live()) {
			hint.Kind = HintDied
			hints = append(hints, hint)
		}
		if i < 0 {
			hint.Kind = HintDestroyed
			hints = append(hints, hint)
		}
	}
	for _, is := range now { // began and ended since
		known := slices.ContainsFunc(before, func(s Status) bool { return s.AttemptID == is.AttemptID })
		if !known && is.State == StateExited {
			hints = append(hints, Hint{Kind: HintDied, AttemptID: is.AttemptID, ContainerID: is.ContainerID})
		}
	}
	return hints
}
