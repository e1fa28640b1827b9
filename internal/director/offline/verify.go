package offline

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"retake/internal/bus"
	"retake/internal/bus/chain"
	"retake/internal/config"
	"retake/internal/director/operator"
	"retake/internal/fsm"
	"retake/internal/projection/feed"
)

// Verify checks the whole journal without changing it. With an embedded bus, it asks the running director first.
func Verify(ctx context.Context, c config.Config) (v bus.Verification, err error) {
	if c.AgentBus.URL == "" {
		v, err = operator.AskVerification(ctx, c.Director.DataDir)
		if !errors.Is(err, operator.ErrNotThere) {
			return v, err
		}
	}
	err = With(ctx, c, true, func(ctx context.Context, b *bus.Bus) error {
		v, err = VerifyJournal(ctx, b.Journal())
		return err
	})
	return v, err
}

// verifyTries limits how often a journal is verified. Another try may be needed, because a director can remove a
// snapshot during the verification.
const verifyTries = 3

// VerifyJournal checks a journal that was opened for reading.
func VerifyJournal(ctx context.Context, j *bus.Journal) (v bus.Verification, err error) {
	for range verifyTries {
		if v, err = j.Verify(ctx); err == nil && len(v.Damages) == 0 {
			err = verifyStates(ctx, j, &v)
		}
		if err == nil && !slices.ContainsFunc(v.Snapshots, func(s bus.VerifiedSnapshot) bool { return s.Fault != "" }) {
			break
		}
	}
	return v, err
}

// verifyStates compares the snapshots of an undamaged journal with the states obtained by replaying the same batches.
// It starts at the journal's beginning or, if the beginning is gone, at the oldest snapshot.
func verifyStates(ctx context.Context, j *bus.Journal, v *bus.Verification) error {
	at, err := j.Begin(ctx)
	if err != nil {
		return err
	}
	known := at.Seq == 0
	m := fsm.New(fsm.Config{})
	for i := range v.Snapshots {
		s := &v.Snapshots[len(v.Snapshots)-1-i]
		if s.Fault != "" {
			continue
		}
		head, state, err := j.Snapshot(ctx, s.Seq)
		if err != nil {
			return err
		}
		had := fsm.New(fsm.Config{})
		if err := had.Restore(state); err != nil {
			s.Fault = "this version cannot use the snapshot: " + err.Error()
			continue
		}
		if !known {
			m, at, known = had, head, true
			continue
		}
		if at, err = replayTo(ctx, j, m, at, s.Seq); err != nil {
			return err
		}
		is, errIs := m.Snapshot()
		was, errWas := had.Snapshot()
		if err := errors.Join(errIs, errWas); err != nil {
			return err
		}
		if !bytes.Equal(is, was) {
			s.Fault = "the snapshot's state differs from the replayed state"
			v.Damages = append(v.Damages, &bus.Damage{
				Kind: chain.Fork, Seq: s.Seq,
				Want: "the state after the same batches", Got: "a different state in the snapshot",
			})
		}
	}
	return nil
}

// replayTo applies the batches after at, up to sequence last, to m.
func replayTo(ctx context.Context, j *bus.Journal, m *fsm.Machine, at bus.Head, last uint64) (bus.Head, error) {
	err := feed.After(ctx, j, at, func(seq uint64, records []fsm.Record) error {
		if seq > last {
			return feed.ErrEnough
		}
		m.Replay(records)
		at = bus.Head{Seq: seq}
		return nil
	})
	return at, err
}
