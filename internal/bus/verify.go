package bus

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"retake/internal/bus/chain"
)

// Verification is the result of checking a journal.
type Verification struct {
	First     uint64             `json:"first"`   // sequence of the first live batch
	Last      uint64             `json:"last"`    // of the last
	Batches   uint64             `json:"batches"` // number of intact batches read, archived ones included
	Head      Head               `json:"head"`    // of the last intact batch
	Mirror    *Head              `json:"mirror,omitempty"`
	Segments  []VerifiedSegment  `json:"segments"`
	Snapshots []VerifiedSnapshot `json:"snapshots"` // newest first
	Damages   []*Damage          `json:"damages"`
}

// VerifiedSegment is a segment of the archive.
type VerifiedSegment struct {
	File  string `json:"file"`
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	Bytes int64  `json:"bytes"`
}

// VerifiedSnapshot is a snapshot. Fault is empty if it can be read.
type VerifiedSnapshot struct {
	Seq   uint64 `json:"seq"`
	Fault string `json:"fault,omitempty"`
}

// Verify reads the whole journal: the archive, the live batches, the snapshots and the mirror. It continues
// after each damage to find all of them. An error means that something could not be read at all.
func (j *Journal) Verify(ctx context.Context) (Verification, error) {
	v := Verification{Segments: []VerifiedSegment{}, Damages: []*Damage{}}
	var err error
	if v.First, v.Last, err = j.bounds(ctx); err != nil {
		return v, err
	}
	if known := j.mark().Head; known.Seq > 0 {
		v.Mirror = &known
	}
	segments, err := chain.Segments(j.archive.Dir)
	if err != nil {
		return v, fmt.Errorf("bus: archive: %w", err)
	}
	for _, s := range segments {
		v.Segments = append(v.Segments, VerifiedSegment{filepath.Base(s.Path), s.First, s.Last, s.Bytes})
	}
	var saved map[uint64]Head
	if v.Snapshots, saved, err = j.verifySnapshots(ctx); err != nil {
		return v, err
	}
	at := Head{Seq: max(v.First, 1) - 1}
	if len(segments) > 0 {
		at = Head{Seq: min(at.Seq, segments[0].First-1)}
	}
	for {
		head, err := j.Records(ctx, at, func(r chain.Record) error {
			v.Batches++
			if known, ok := saved[r.Seq]; ok {
				if d := joint(r, known, "a snapshot"); d != nil {
					v.Damages = append(v.Damages, d)
				}
			}
			return nil
		})
		v.Head = head
		if err == nil {
			break
		}
		d, damaged := errors.AsType[*Damage](err)
		if errors.Is(err, errLeft) { // and the archive belongs to another director
			if at, err = j.beginning(ctx, at); err != nil {
				return v, err
			}
			v.First = at.Seq + 1
			continue
		}
		if !damaged {
			return v, err
		}
		if !j.shared || d.Kind != chain.Gap || d.Seq >= v.First { // otherwise another director may have archived it
			v.Damages = append(v.Damages, d)
		}
		if at, err = j.behind(ctx, d, segments, v.Last); err != nil {
			return v, err
		}
	}
	if err := j.ended(ctx, v.Last, 0); err != nil {
		d, damaged := errors.AsType[*Damage](err)
		if !damaged {
			return v, err
		}
		v.Damages = append(v.Damages, d)
	}
	return v, nil
}

// verifySnapshots reads the snapshots, newest first, and returns the heads that they contain.
func (j *Journal) verifySnapshots(ctx context.Context) (all []VerifiedSnapshot, heads map[uint64]Head, err error) {
	all, heads = []VerifiedSnapshot{}, map[uint64]Head{}
	seqs, err := j.snapshots(ctx)
	for _, seq := range seqs {
		s := VerifiedSnapshot{Seq: seq}
		at, _, err := j.getSnapshot(ctx, seq)
		switch {
		case outage(err):
			return nil, nil, fmt.Errorf("bus: snapshot %d: %w", seq, err)
		case err != nil:
			s.Fault = err.Error()
		case at.Known():
			heads[seq] = at
		}
		all = append(all, s)
	}
	return all, heads, err
}

// beginning returns the head before the live journal, or a given later one.
func (j *Journal) beginning(ctx context.Context, at Head) (Head, error) {
	first, _, err := j.bounds(ctx)
	if err != nil || at.Seq+1 >= first {
		return at, err
	}
	return Head{Seq: first - 1}, nil
}

// VerifyLive reads the live batches up to a sequence, with a pause after each, and returns the number of intact
// ones. The first damage is returned as a *Damage. Batches archived meanwhile are read from the archive.
func (j *Journal) VerifyLive(ctx context.Context, last uint64, rest time.Duration) (n uint64, err error) {
	begin, err := j.beginning(ctx, Head{})
	if err != nil {
		return 0, err
	}
	enough := errors.New("all is read")
	_, err = j.Records(ctx, begin, func(r chain.Record) error {
		if r.Seq > last {
			return enough
		}
		n++
		pause(ctx, rest)
		return ctx.Err()
	})
	if errors.Is(err, enough) {
		err = nil
	}
	return n, err
}

// behind returns where to continue after a damage: after the damaged segment or batch, or at the end of a gap.
func (j *Journal) behind(ctx context.Context, d *Damage, segments []chain.Segment, last uint64) (Head, error) {
	for _, s := range segments {
		if d.Where == filepath.Base(s.Path) {
			return Head{Seq: s.Last}, nil
		}
		if d.Kind == chain.Gap && s.First > d.Seq {
			return Head{Seq: s.First - 1}, nil
		}
	}
	if d.Kind != chain.Gap {
		return Head{Seq: d.Seq}, nil
	}
	first, _, err := j.bounds(ctx)
	for seq := max(d.Seq+1, first); err == nil && seq <= last; seq++ {
		_, unreadable := j.record(ctx, seq)
		if !errors.Is(unreadable, ErrDamaged) {
			return Head{Seq: seq - 1}, unreadable
		}
	}
	return Head{Seq: last}, err
}
