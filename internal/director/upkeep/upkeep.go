// Package upkeep saves a session's state, and keeps the live journal short.
package upkeep

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/director/loop"
	"retake/internal/director/restore"
	"retake/internal/fsm"
)

// A snapshot is saved after snapshotEvery batches, to limit the replay after a restart, or after snapshotAfter if there
// is any new batch. Only batches before a snapshot can leave the live journal.
const (
	snapshotEvery = 1000
	snapshotAfter = time.Hour
)

// Upkeep saves a session's state. Call Begin first, and Finish after Run has ended. Verify may run at any time.
type Upkeep struct {
	Owner    *loop.Owner // set after Begin
	Journal  *bus.Journal
	Interval func() time.Duration
	Fleet    *restore.FleetFile
	Publish  func(context.Context) // publishes the state outside this process
	Unusable *sync.Map             // problems that health shows, by component
	Log      *zap.Logger

	skipped uint64    // journal sequence of the snapshot with which the session began
	saved   uint64    // journal sequence of the last snapshot
	savedAt time.Time // when it was saved, or when the session began
	retires retries
	resave  bool // the stored snapshot is unreadable, so save another
}

// Begin takes over a loaded state. If the live journal is more than half full, Begin makes room for the batches of the
// session. Only batches before the last two snapshots can leave the live journal.
func (u *Upkeep) Begin(ctx context.Context, h *restore.State) {
	u.saved, u.savedAt = h.Saved, time.Now()
	u.makeRoom(ctx, h)
	u.skipped = u.saved
}

// Keep writes the fleet file. Do not call it while Run is running.
func (u *Upkeep) Keep(m *fsm.Machine) { u.Fleet.Keep(u.Fleet.Of(m)) }

// Finish saves the state for the next session. Stop the owner first.
func (u *Upkeep) Finish(ctx context.Context) {
	u.save(ctx, u.stateToSave(u.Owner.Driver(), true))
	u.Keep(u.Owner.Driver().Machine())
}

// Run publishes the state, saves a snapshot when it is due, and checks the journal, once per interval until ctx is
// done. An error means that the server has lost the journal.
func (u *Upkeep) Run(ctx context.Context) error {
	for {
		select {
		case <-time.After(u.Interval()):
		case <-ctx.Done():
			return nil
		}
		u.Publish(ctx)
		if fleet, err := loop.Look(ctx, u.Owner,
			func(d *fsm.Driver) restore.FleetState { return u.Fleet.Of(d.Machine()) }); err == nil {
			u.Fleet.Keep(fleet)
		}
		crowded, err := u.Journal.Crowded(ctx)
		if err != nil {
			u.Log.Debug("could not read the size of the live journal", zap.Error(err))
		}
		if state, err := loop.Look(ctx, u.Owner,
			func(d *fsm.Driver) savedState { return u.stateToSave(d, crowded || u.resave) }); err == nil {
			before := u.saved
			if u.save(ctx, state); u.saved != before || u.retires.due(time.Now()) {
				u.retireJournal(ctx)
			}
		}
		if last, err := loop.Look(ctx, u.Owner, func(d *fsm.Driver) uint64 { return d.Last() }); err == nil {
			if err := u.journalChecked(ctx, last); err != nil {
				return err
			}
		}
	}
}

// savedState is a snapshot of the machine at a position in the journal.
type savedState struct {
	head bus.Head
	data []byte // nil if no snapshot is due
}

// stateToSave returns the snapshot to save. It returns an empty state if none is due, or while some decisions are not
// in the journal. It runs on the owner's goroutine.
func (u *Upkeep) stateToSave(d *fsm.Driver, now bool) savedState {
	last := d.Last()
	due := last >= u.saved+snapshotEvery || last > u.saved && (now || time.Since(u.savedAt) >= snapshotAfter)
	head := u.Owner.Head()
	if !due || !d.Idle() || head.Seq != last {
		return savedState{}
	}
	data, err := d.Machine().Snapshot()
	if err != nil {
		u.Log.Warn("could not take a snapshot", zap.Error(err))
	}
	return savedState{head, data}
}

func (u *Upkeep) save(ctx context.Context, state savedState) {
	if state.data == nil {
		return
	}
	if err := u.Journal.SaveSnapshot(ctx, state.head, state.data); err != nil {
		u.Log.Warn("could not save the snapshot", zap.Error(err))
		return
	}
	u.saved, u.savedAt = state.head.Seq, time.Now()
}

// journalChecked returns an error if the server has lost the journal. If the server does not answer, it returns nil.
func (u *Upkeep) journalChecked(ctx context.Context, last uint64) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := u.Journal.Check(ctx, last)
	if err != nil {
		return fmt.Errorf("%w: %w", loop.ErrReload, err)
	}
	return nil
}
