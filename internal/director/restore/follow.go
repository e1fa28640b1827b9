package restore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/config"
)

// Intervals at which a standby reads the journal: normally, and after a failure.
const (
	followEvery = 250 * time.Millisecond
	followAgain = 5 * time.Second
)

// Follow keeps the state current until ctx is done, so that Load only has to read the end of the journal.
func (r *Restorer) Follow(ctx context.Context) {
	r.problem.Store(nil) // an earlier call may have left a problem
	r.tasks.Store(0)
	for ctx.Err() == nil {
		pause := followEvery
		h := r.followed
		var err error
		if h == nil {
			h, err = r.read(ctx)
		} else {
			err = h.ReadOn(ctx, r.Bus().Journal())
		}
		switch {
		case err == nil:
			r.problem.Store(nil)
		case ctx.Err() == nil:
			r.notFollowed(err)
		}
		if err != nil {
			h, pause = nil, followAgain
		}
		if r.followed = h; h != nil {
			r.tasks.Store(int64(len(h.Machine.Tasks())))
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// notFollowed records and logs why the journal cannot be followed. For a lost journal, the text includes the next step
// for a person, unless the next leader rebuilds the journal.
func (r *Restorer) notFollowed(err error) {
	lost := errors.Is(err, bus.ErrDamaged) || errors.Is(err, bus.ErrNoJournal)
	switch {
	case lost && r.Config.Journal.OnDamage == config.OnDamageRebuild:
		err = fmt.Errorf("%w (the next leader rebuilds it, see journal.on_damage)", err)
	case lost:
		err = fmt.Errorf("%w (this standby cannot lead: stop every director of this fleet, then %s)", err, repair)
	}
	why := "the journal cannot be followed: " + err.Error()
	if known := r.problem.Swap(&why); known != nil && *known == why {
		return
	}
	if lost {
		r.Log.Error("journal lost or damaged; this standby cannot lead", zap.Error(err))
	} else {
		r.Log.Warn("could not follow the journal; retrying", zap.Error(err))
	}
}

// Tasks returns the number of tasks in the followed state.
func (r *Restorer) Tasks() int { return int(r.tasks.Load()) }

// Problem returns why the journal cannot be followed, or "".
func (r *Restorer) Problem() string {
	if why := r.problem.Load(); why != nil {
		return *why
	}
	return ""
}
