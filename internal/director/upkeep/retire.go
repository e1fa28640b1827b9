package upkeep

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/director/failure"
	"retake/internal/director/lead"
	"retake/internal/director/restore"
)

func (u *Upkeep) makeRoom(ctx context.Context, h *restore.State) {
	crowded, err := u.Journal.Crowded(ctx)
	if err != nil || !crowded {
		return // the first append will report the problem
	}
	u.Log.Warn("live journal is more than half full; making room before the next append")
	if h.Head.Seq > h.Saved {
		data, err := h.Machine.Snapshot()
		if err != nil {
			u.Log.Warn("could not take a snapshot", zap.Error(err))
		}
		u.save(ctx, savedState{h.Head, data})
	}
	u.retireJournal(ctx)
}

// beforeSnapshot names the part of the live journal that is skipped at startup. verifyRest is the pause after each
// batch when that part is read later.
const (
	beforeSnapshot = "the live journal before its snapshot"
	verifyRest     = 2 * time.Millisecond
)

// Verify reads the part of the live journal before the snapshot, which is skipped at startup. It reports damage, which
// cannot affect the state, and retries after read errors.
func (u *Upkeep) Verify(ctx context.Context) {
	u.Unusable.Delete(beforeSnapshot)
	if u.skipped == 0 { // startup has read the whole journal
		return
	}
	var n uint64
	err := failure.Retry(ctx, failure.Pauses(u.Interval(), retireMost), 0, func() (err error) {
		if n, err = u.Journal.VerifyLive(ctx, u.skipped, verifyRest); errors.Is(err, bus.ErrDamaged) {
			return backoff.Permanent(err)
		}
		return err
	}, func(err error, pause time.Duration) {
		u.Log.Warn("could not verify the part of the journal before its snapshot; retrying", zap.Error(err),
			zap.Duration("in", pause))
	})
	switch {
	case ctx.Err() != nil:
	case err != nil:
		u.Unusable.Store(beforeSnapshot, err.Error()+", in the part before its snapshot: no state depends on it, but "+
			"it cannot be "+
			"exported; `director journal verify` lists all damage")
		u.Log.Error("journal is damaged in the part before its snapshot", zap.Error(err))
	default:
		u.Log.Info("verified the part of the journal before its snapshot", zap.Uint64("batches", n))
	}
}

// retireMost is the longest pause between two calls to retireJournal after a failure. It is long, because each call may
// read a large part of the journal.
const retireMost = 10 * time.Minute

// retries schedules the next call to retireJournal, with doubling pauses after failures. Only Begin and Run use it. In
// each session the first call is due at once, because the last call in the previous session may have failed.
type retries struct {
	at    time.Time     // time of the next call
	pause time.Duration // the last pause; 0 after a success
	done  bool          // no call is due before the next snapshot
}

func (r *retries) due(now time.Time) bool { return !r.done && !now.Before(r.at) }

// ended records the result of a call.
func (r *retries) ended(now time.Time, first time.Duration, err error) {
	if err == nil {
		*r = retries{done: true}
		return
	}
	r.pause = min(max(2*r.pause, first), retireMost)
	r.at, r.done = now.Add(r.pause), false
}

// retireJournal moves the batches that a restart does not need out of the live journal.
func (u *Upkeep) retireJournal(ctx context.Context) {
	err := u.Journal.Retire(ctx, time.Now())
	if ctx.Err() != nil {
		return
	}
	u.retires.ended(time.Now(), u.Interval(), err)
	if u.resave = errors.Is(err, bus.ErrSnapshot); u.resave {
		u.saved = 0 // the unreadable snapshot may be the stored one, so save another
	}
	if err == nil {
		u.Unusable.Delete(lead.ArchiveDir)
		return
	}
	u.Unusable.Store(lead.ArchiveDir, "the live journal cannot be shortened: "+err.Error())
	u.Log.Warn("could not shorten live journal; retrying", zap.Duration("in", u.retires.pause),
		zap.Error(err))
}
