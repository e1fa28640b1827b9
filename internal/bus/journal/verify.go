package journal

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"retake/internal/bus/chain"
	"retake/internal/bus/link"
)

// Verification is the result of checking a journal.
type Verification struct {
	First     uint64             `json:"first"`   // sequence of the first live batch
	Last      uint64             `json:"last"`    // sequence of the last live batch
	Batches   uint64             `json:"batches"` // number of intact batches, including archived ones
	Head      chain.Head         `json:"head"`    // head of the last intact batch
	Mirror    *chain.Head        `json:"mirror,omitempty"`
	Segments  []VerifiedSegment  `json:"segments"`
	Snapshots []VerifiedSnapshot `json:"snapshots"` // newest first
	Damages   []*chain.Damage    `json:"damages"`
}

// VerifiedSegment is one checked archive segment.
type VerifiedSegment struct {
	File  string `json:"file"`
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	Bytes int64  `json:"bytes"`
}

// VerifiedSnapshot is one checked snapshot. Fault explains why it is unreadable, and is empty if it is intact.
type VerifiedSnapshot struct {
	Seq   uint64 `json:"seq"`
	Fault string `json:"fault,omitempty"`
}

// Verify reads the whole journal: the archive, the live batches, the snapshots and the mirror. After damage, it
// continues with the next readable batch. It returns an error only if the server or a file could not be read.
func (j *Journal) Verify(ctx context.Context) (Verification, error) {
	v := verifier{j: j, Verification: Verification{Segments: []VerifiedSegment{}, Damages: []*chain.Damage{}}}
	err := v.verify(ctx)
	return v.Verification, err
}

// verifier holds the state of one Verify call.
type verifier struct {
	Verification
	j        *Journal
	segments []chain.Segment
	saved    map[uint64]chain.Head // heads of the snapshots, by sequence
}

func (v *verifier) verify(ctx context.Context) (err error) {
	if v.First, v.Last, err = v.j.live.bounds(ctx); err != nil {
		return err
	}
	if known := v.j.position.mark().Head; known.Seq > 0 {
		v.Mirror = &known
	}
	if v.segments, err = v.j.position.segments(); err != nil {
		return err
	}
	for _, s := range v.segments {
		v.Segments = append(v.Segments, VerifiedSegment{filepath.Base(s.Path), s.First, s.Last, s.Bytes})
	}
	if err := v.readSnapshots(ctx); err != nil {
		return err
	}
	if err := v.readBatches(ctx); err != nil {
		return err
	}
	return v.note(v.j.ended(ctx, v.Last, 0))
}

// note records err if it is a *chain.Damage, and returns any other error.
func (v *verifier) note(err error) error {
	d, damaged := errors.AsType[*chain.Damage](err)
	if !damaged {
		return err
	}
	v.Damages = append(v.Damages, d)
	return nil
}

// readSnapshots reads the snapshots, newest first.
func (v *verifier) readSnapshots(ctx context.Context) error {
	v.Snapshots, v.saved = []VerifiedSnapshot{}, map[uint64]chain.Head{}
	seqs, err := v.j.snapshots.list(ctx)
	for _, seq := range seqs {
		s := VerifiedSnapshot{Seq: seq}
		at, _, err := v.j.snapshots.get(ctx, seq)
		switch {
		case link.Outage(err):
			return fmt.Errorf("journal: snapshot %d: %w", seq, err)
		case err != nil:
			s.Fault = err.Error()
		case at.Known():
			v.saved[seq] = at
		}
		v.Snapshots = append(v.Snapshots, s)
	}
	return err
}

func (v *verifier) readBatches(ctx context.Context) error {
	at := chain.Head{Seq: max(v.First, 1) - 1}
	if len(v.segments) > 0 {
		at.Seq = min(at.Seq, v.segments[0].First-1)
	}
	for {
		head, err := v.j.Records(ctx, at, func(r chain.Record) error {
			v.Batches++
			if known, ok := v.saved[r.Seq]; ok {
				if d := joint(r, known, "a snapshot"); d != nil {
					v.Damages = append(v.Damages, d)
				}
			}
			return nil
		})
		v.Head = head
		d, damaged := errors.AsType[*chain.Damage](err)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errLeft): // another director archived the batch
			if at, err = v.j.live.beginning(ctx, at); err != nil {
				return err
			}
			v.First = at.Seq + 1
			continue
		case !damaged:
			return err
		}
		// Batches missing on this machine may be in another director's archive.
		if !v.j.site.Shared || d.Kind != chain.Gap || d.Seq >= v.First {
			v.Damages = append(v.Damages, d)
		}
		if at, err = v.behind(ctx, d); err != nil {
			return err
		}
	}
}

// behind returns the head at which Verify continues after damage: the end of the damaged segment, the damaged batch or
// the gap.
func (v *verifier) behind(ctx context.Context, d *chain.Damage) (chain.Head, error) {
	for _, s := range v.segments {
		if d.Where == filepath.Base(s.Path) {
			return chain.Head{Seq: s.Last}, nil
		}
		if d.Kind == chain.Gap && s.First > d.Seq {
			return chain.Head{Seq: s.First - 1}, nil
		}
	}
	if d.Kind != chain.Gap {
		return chain.Head{Seq: d.Seq}, nil
	}
	first, _, err := v.j.live.bounds(ctx)
	for seq := max(d.Seq+1, first); err == nil && seq <= v.Last; seq++ {
		_, unreadable := v.j.live.record(ctx, seq)
		if !errors.Is(unreadable, chain.ErrDamaged) {
			return chain.Head{Seq: seq - 1}, unreadable
		}
	}
	return chain.Head{Seq: v.Last}, err
}

// VerifyLive checks the live batches through sequence last, pausing for rest after each one. It returns the number of
// intact batches, and the first damage as a *chain.Damage. Retire may run concurrently.
func (j *Journal) VerifyLive(ctx context.Context, last uint64, rest time.Duration) (n uint64, err error) {
	begin, err := j.live.beginning(ctx, chain.Head{})
	if err != nil {
		return 0, err
	}
	enough := errors.New("all batches read")
	_, err = j.Records(ctx, begin, func(r chain.Record) error {
		if r.Seq > last {
			return enough
		}
		n++
		link.Pause(ctx, rest)
		return ctx.Err()
	})
	if errors.Is(err, enough) {
		err = nil
	}
	return n, err
}
