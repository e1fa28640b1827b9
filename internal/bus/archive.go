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

// Archive tells what happens to batches that leave the live journal.
type Archive struct {
	Dir  string        // directory of the segments; if empty, nothing leaves the live journal
	Keep time.Duration // lifetime of a segment after archiving; 0 keeps it permanently
}

// A segment is written when there are segmentMin batches for it, or when its first batch is segmentAfter old.
// It has at most segmentMax batches.
const (
	segmentMin   = 1000
	segmentAfter = 24 * time.Hour
	segmentMax   = 10_000
)

// Retire moves the batches covered by both kept snapshots into the archive, and removes expired segments. It
// writes and syncs a segment before it purges the stream. It does nothing while there is little to move. One
// goroutine may call it at a time, concurrently with Append.
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

// Crowded reports whether more than half of the live journal's capacity is used. Then even a short segment is
// worth writing, because a full journal rejects appends.
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

// retired returns the last sequence that a restart can do without, which is that of the older of two snapshots.
// It returns 0 if there are fewer than two, or if one is older than the chain. It returns ErrSnapshot if one
// cannot be read.
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

// retire archives the batches that are not archived yet, makes the archive durable, and then purges.
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
	err = safefile.SyncDir(j.archive.Dir) // a segment that was found may not have been synced
	if err == nil {
		_, _, err = j.bounds(ctx) // fails if the journal was replaced
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

// errNotOurs reports an intact segment that the live batches do not follow.
var errNotOurs = errors.New("does not join the live journal")

// archivedAlready returns the segments of batches that are still live, because an earlier try was interrupted
// before the purge. A segment that does not join the live journal is an error, even if it ends just before the
// live batches.
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

// joins checks that a segment belongs to this journal, by comparing its final digest, which covers all batches
// before it. A segment older than the chain cannot be checked, and is accepted only if none of its batches is
// live.
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

// before returns the head that a live batch follows, according to the batch. The digest is unknown for a batch
// older than the chain.
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

// writeSegments archives live batches. A damaged batch ends its segment and is logged. The state no longer
// depends on it.
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
		if end.Seq < next { // the batch cannot be read
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

// sound returns the head up to which the batches form a chain. A *Damage is about the batch after it.
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
