package journal

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"retake/internal/bus/chain"
	"retake/internal/bus/link"
	"retake/internal/safefile"
)

// Archive configures the archive of batches that leave the live journal.
type Archive struct {
	Dir  string        // segment directory; if empty, batches stay in the live journal
	Keep time.Duration // how long to keep an archived segment; 0 means forever
}

// Segment sizes. A segment is written when segmentMin batches are ready, when its first batch is segmentAfter old, or
// when the stream is more than half full. It has at most segmentMax batches.
const (
	segmentMin   = 1000
	segmentAfter = 24 * time.Hour
	segmentMax   = 10_000
)

// archiver moves batches from the stream into the archive.
type archiver struct {
	live      *live
	snapshots *snapshots
	position  *position
	keep      time.Duration
	leads     link.Leads
	log       *zap.Logger
}

func (a *archiver) run(ctx context.Context, now time.Time) error {
	dir := a.position.archiveDir()
	if dir == "" {
		return nil
	}
	if err := a.leads.MayChange(); err != nil {
		return err
	}
	to, err := a.retired(ctx)
	if err != nil {
		return err
	}
	info, err := a.live.info(ctx)
	if err != nil {
		return err
	}
	if first := max(info.State.FirstSeq, 1); first <= to {
		oldest, err := a.live.record(ctx, first)
		if err != nil && !errors.Is(err, chain.ErrDamaged) {
			return err
		}
		if crowded(info) || to-first+1 >= segmentMin || now.Sub(oldest.At) >= segmentAfter {
			if err := a.retire(ctx, dir, first, to); err != nil {
				return err
			}
		}
	}
	if a.keep == 0 {
		return nil
	}
	if err := chain.Expire(dir, now.Add(-a.keep)); err != nil {
		return fmt.Errorf("journal: archive: %w", err)
	}
	return nil
}

// retired returns the sequence of the older of the two kept snapshots, because a restart needs only the batches after
// it. It returns 0 if there are fewer than two snapshots, or if an older version wrote one of them without a digest. It
// returns ErrSnapshot if a snapshot cannot be read.
func (a *archiver) retired(ctx context.Context) (uint64, error) {
	all, err := a.snapshots.list(ctx)
	if err != nil {
		return 0, err
	}
	all = all[:min(keptSnapshots, len(all))]
	enough := len(all) == keptSnapshots
	for _, seq := range all {
		at, _, err := a.snapshots.get(ctx, seq)
		switch {
		case link.Outage(err):
			return 0, fmt.Errorf("journal: snapshot %d: %w", seq, err)
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

// retire archives the batches that are not yet in the archive, syncs the archive, and then purges the batches.
func (a *archiver) retire(ctx context.Context, dir string, first, to uint64) error {
	if err := safefile.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("journal: archive: %w", err)
	}
	archived, err := a.archivedAlready(ctx, dir, first)
	if err != nil {
		return err
	}
	next := first
	for _, s := range append(archived, chain.Segment{First: to + 1, Last: to}) {
		if err := a.writeSegments(ctx, dir, next, min(s.First-1, to)); err != nil {
			return err
		}
		next = max(next, s.Last+1)
	}
	err = safefile.SyncDir(dir) // an existing segment may not have been synced
	if err == nil {
		_, _, err = a.live.bounds(ctx) // fails if the journal was replaced
	}
	if err == nil {
		err = a.leads.MayChange()
	}
	if err == nil {
		err = a.live.stream.Purge(ctx, jetstream.WithPurgeSequence(to+1))
	}
	if err != nil {
		return fmt.Errorf("journal: archive: %w", err)
	}
	return nil
}

// errNotOurs means that a segment is intact, but does not match the live batches.
var errNotOurs = errors.New("journal: archive: a segment does not match the live journal")

// archivedAlready returns the segments that contain live batches. Such segments exist if an earlier call was
// interrupted before the purge. A segment that does not match the live journal is an error, even if it ends just before
// the live batches.
func (a *archiver) archivedAlready(ctx context.Context, dir string, first uint64) (live []chain.Segment, err error) {
	all, err := chain.Segments(dir)
	if err != nil {
		return nil, fmt.Errorf("journal: archive: %w", err)
	}
	for _, s := range all {
		if s.Last+1 < first {
			continue
		}
		err := a.joins(ctx, s, first)
		damaged := errors.Is(err, chain.ErrDamaged)
		switch {
		case err == nil && s.Last >= first:
			live = append(live, s)
		case err == nil:
		case damaged && s.Last < first:
			a.log.Warn("damaged segment found in the archive", zap.Error(err))
		case damaged, errors.Is(err, errNotOurs):
			if damaged {
				err = fmt.Errorf("journal: archive: %w", err)
			}
			return nil, fmt.Errorf("%w: until an operator moves that file out of %s, batches are not archived, "+
				"and the live journal grows", err, dir)
		default:
			return nil, err
		}
	}
	return live, nil
}

// joins checks that a segment belongs to this journal. It compares the segment's final digest, which covers all earlier
// batches. A segment from an older version does not have a digest. joins accepts it only if all its batches have left
// the live journal.
func (a *archiver) joins(ctx context.Context, s chain.Segment, first uint64) error {
	file, err := chain.Read(s.Path, nil, nil)
	if err != nil {
		return err
	}
	at, err := a.live.before(ctx, s.Last+1)
	follows := at.String()
	switch unknown := !at.Known() || !file.Sure; {
	case errors.Is(err, chain.ErrDamaged):
		follows = "an unreadable batch: " + err.Error()
	case err != nil:
		return err
	case unknown && s.Last < first, at == file.Trailer.Head && s.First == file.Header.First && !unknown:
		return nil
	}
	return fmt.Errorf("%w: %s ends at %s, but batch %d follows %s", errNotOurs, filepath.Base(s.Path),
		file.Trailer.Head, s.Last+1, follows)
}

// writeSegments archives live batches. It logs a damaged batch, leaves it out, and continues with a new segment. This
// is safe because two snapshots already contain the batch's effect.
func (a *archiver) writeSegments(ctx context.Context, dir string, next, to uint64) error {
	for next <= to {
		after, err := a.live.before(ctx, next)
		end := after
		if err == nil {
			end, err = a.sound(ctx, after, min(to, next+segmentMax-1))
		}
		if errors.Is(err, chain.ErrDamaged) {
			a.log.Error("excluded a damaged batch from the archive; the state does not depend on it",
				zap.Error(err))
		} else if err != nil {
			return err
		}
		if end.Seq < next { // the next batch is unreadable
			next++
			continue
		}
		if err := a.segment(ctx, dir, after, end); err != nil {
			return err
		}
		next = end.Seq + 1
	}
	return nil
}

// sound checks the batches after the given head, through sequence to. It returns the head of the last batch before any
// damage. A *chain.Damage describes the batch after that head.
func (a *archiver) sound(ctx context.Context, after chain.Head, to uint64) (chain.Head, error) {
	c := chain.Follow(after)
	err := a.live.read(ctx, after.Seq+1, to, c.Add)
	return c.Head(), err
}

func (a *archiver) segment(ctx context.Context, dir string, after, end chain.Head) error {
	err := chain.Create(chain.SegmentPath(dir, after.Seq+1, end.Seq), a.position.source(), after,
		func(w *chain.Writer) error {
			return a.live.read(ctx, after.Seq+1, end.Seq, w.Add)
		})
	if err != nil {
		return fmt.Errorf("journal: archive: %w", err)
	}
	return nil
}
