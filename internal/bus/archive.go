package bus

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"retake/internal/bus/chain"
	"retake/internal/safefile"
)

// Archive says where batches go that have left the live journal.
type Archive struct {
	Dir  string        // of the segments; empty: nothing leaves the live journal
	Keep time.Duration // of a segment, since it was archived; 0: for ever
}

// A segment is worth writing when it has so many batches, or when its first has stood there so long; and it has
// at most so many.
const (
	segmentMin   = 1000
	segmentAfter = 24 * time.Hour
	segmentMax   = 10_000
)

// Retire moves the batches that both kept snapshots are beyond into the archive: first a segment is written and
// synced, then the stream is purged. Segments whose time has come are removed. Nothing happens while there is
// little to move. It is called by one goroutine at a time, beside Append.
func (j *Journal) Retire(ctx context.Context, now time.Time) error {
	if j.archive.Dir == "" {
		return nil
	}
	if err := j.mayChange(); err != nil {
		return err
	}
	to, err := j.retired(ctx)
	if err != nil {
		return err
	}
	info, err := j.info(ctx)
	if err != nil {
		return err
	}
	if first := max(info.State.FirstSeq, 1); first <= to {
		oldest, err := j.record(ctx, first)
		if err != nil && !errors.Is(err, ErrDamaged) {
			return err
		}
		if crowded(info) || to-first+1 >= segmentMin || now.Sub(oldest.At) >= segmentAfter {
			if err := j.retire(ctx, first, to); err != nil {
				return err
			}
		}
	}
	if j.archive.Keep == 0 {
		return nil
	}
	if err := chain.Expire(j.archive.Dir, now.Add(-j.archive.Keep)); err != nil {
		return fmt.Errorf("bus: archive: %w", err)
	}
	return nil
}

// Crowded reports whether more than half of what the live journal may have is used. Then a segment is worth
// writing however short it is: a journal that is full takes no batch any more.
func (j *Journal) Crowded(ctx context.Context) (bool, error) {
	info, err := j.info(ctx)
	if err != nil {
		return false, err
	}
	return crowded(info), nil
}

func crowded(info *jetstream.StreamInfo) bool {
	most := info.Config.MaxBytes
	return most > 0 && info.State.Bytes > uint64(most)/2 //nolint:gosec // it is not negative
}

// retired is the last sequence that no restart needs any more: that of the older one of two snapshots. 0: there
// are not two, or one is of before there was a chain. One that cannot be read is an error, ErrSnapshot.
func (j *Journal) retired(ctx context.Context) (uint64, error) {
	all, err := j.snapshots(ctx)
	if err != nil {
		return 0, err
	}
	all = all[:min(keptSnapshots, len(all))]
	enough := len(all) == keptSnapshots
	for _, seq := range all {
		at, _, err := j.getSnapshot(ctx, seq)
		switch {
		case outage(err):
			return 0, fmt.Errorf("bus: snapshot %d: %w", seq, err)
		case err != nil:
			return 0, fmt.Errorf("%w: snapshot %d: %w", ErrSnapshot, seq, err)
		}
		enough = enough && at.Known()
	}
	if !enough {
		return 0, nil
	}
	return all[keptSnapshots-1], nil
}

// retire archives what is not yet, makes that durable, then purges.
func (j *Journal) retire(ctx context.Context, first, to uint64) error {
	if err := safefile.MkdirAll(j.archive.Dir, 0o700); err != nil {
		return fmt.Errorf("bus: archive: %w", err)
	}
	archived, err := j.archivedAlready(ctx, first)
	if err != nil {
		return err
	}
	next := first
	for _, s := range append(archived, chain.Segment{First: to + 1, Last: to}) {
		if err := j.writeSegments(ctx, next, min(s.First-1, to)); err != nil {
			return err
		}
		next = max(next, s.Last+1)
	}
	err = safefile.SyncDir(j.archive.Dir) // a segment that was found may have been put there without
	if err == nil {
		_, _, err = j.bounds(ctx) // it is still this journal
	}
	if err == nil {
		err = j.mayChange()
	}
	if err == nil {
		err = j.stream.Purge(ctx, jetstream.WithPurgeSequence(to+1))
	}
	if err != nil {
		return fmt.Errorf("bus: archive: %w", err)
	}
	return nil
}

// errNotOurs: a segment that is whole, but not followed by the batches that are live.
var errNotOurs = errors.New("does not join the live journal")

// archivedAlready are the segments of batches that are still live: an earlier try was interrupted before it
// purged them. One that does not join is an error, also if it only ends where the live batches begin.
func (j *Journal) archivedAlready(ctx context.Context, first uint64) (live []chain.Segment, err error) {
	all, err := chain.Segments(j.archive.Dir)
	if err != nil {
		return nil, fmt.Errorf("bus: archive: %w", err)
	}
	for _, s := range all {
		if s.Last+1 < first {
			continue
		}
		err := j.joins(ctx, s, first)
		damaged := errors.Is(err, ErrDamaged)
		switch {
		case err == nil && s.Last >= first:
			live = append(live, s)
		case err == nil:
		case damaged && s.Last < first:
			j.log.Warn("a segment of the archive is damaged", zap.Error(err))
		case damaged, errors.Is(err, errNotOurs):
			return nil, fmt.Errorf("bus: archive: %w: nothing leaves the live journal before somebody moves that "+
				"file out of %s; what is live is archived again then", err, j.archive.Dir)
		default:
			return nil, err
		}
	}
	return live, nil
}

// joins makes sure that a segment is of this journal, by its end: a digest is that of everything before it.
// What is older than the chain cannot be told; it is taken only if nothing of it is live.
func (j *Journal) joins(ctx context.Context, s chain.Segment, first uint64) error {
	file, err := chain.Read(s.Path, nil, nil)
	if err != nil {
		return err
	}
	at, err := j.before(ctx, s.Last+1)
	follows := at.String()
	switch unknown := !at.Known() || !file.Sure; {
	case errors.Is(err, ErrDamaged):
		follows = "nothing that can be read: " + err.Error()
	case err != nil:
		return err
	case unknown && s.Last < first, at == file.Trailer.Head && s.First == file.Header.First && !unknown:
		return nil
	}
	return fmt.Errorf("%s %w: it ends at %s, and batch %d follows %s", filepath.Base(s.Path), errNotOurs,
		file.Trailer.Head, s.Last+1, follows)
}

// before is the head that a live batch follows, as the batch itself says; its digest is not known for one of
// before there was a chain.
func (j *Journal) before(ctx context.Context, seq uint64) (Head, error) {
	r, err := j.record(ctx, seq)
	if err != nil {
		return Head{}, err
	}
	at := Head{Seq: seq - 1}
	if r.Prev != "" {
		if err := at.Digest.UnmarshalText([]byte(r.Prev)); err != nil {
			return Head{}, &Damage{
				Kind: chain.Broken, Seq: seq, Want: "the digest before it",
				Got: fmt.Sprintf("%.80q", r.Prev),
			}
		}
	}
	return at, nil
}

// writeSegments archives live batches. A damaged one ends its segment; the log names it, and no state needs it
// any more.
func (j *Journal) writeSegments(ctx context.Context, next, to uint64) error {
	for next <= to {
		after, err := j.before(ctx, next)
		end := after
		if err == nil {
			end, err = j.sound(ctx, after, min(to, next+segmentMax-1))
		}
		if errors.Is(err, ErrDamaged) {
			j.log.Error("the journal is damaged where it is archived; the state does not need it any more",
				zap.Error(err))
		} else if err != nil {
			return err
		}
		if end.Seq < next { // this batch cannot be read
			next++
			continue
		}
		if err := j.segment(ctx, after, end); err != nil {
			return err
		}
		next = end.Seq + 1
	}
	return nil
}

// sound is the head up to which the batches follow one another. An error that is a *Damage is that of the next one.
func (j *Journal) sound(ctx context.Context, after Head, to uint64) (Head, error) {
	c := chain.Follow(after)
	err := j.live(ctx, after.Seq+1, to, c.Add)
	return c.Head(), err
}

func (j *Journal) segment(ctx context.Context, after, end Head) error {
	err := chain.Create(chain.SegmentPath(j.archive.Dir, after.Seq+1, end.Seq), j.of(), after,
		func(w *chain.Writer) error {
			return j.live(ctx, after.Seq+1, end.Seq, w.Add)
		})
	if err != nil {
		return fmt.Errorf("bus: archive: %w", err)
	}
	return nil
}
