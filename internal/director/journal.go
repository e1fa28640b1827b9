package director

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/bus/chain"
	"retake/internal/bus/keys"
	"retake/internal/bus/server"
	"retake/internal/config"
	"retake/internal/director/failure"
	"retake/internal/director/lead"
	"retake/internal/director/loop"
	"retake/internal/director/restore"
	"retake/internal/fsm"
	"retake/internal/projection/feed"
	"retake/internal/safefile"
)

// withJournal opens only the journal, passes it to use, and closes it. It locks the data directory against
// directors, except to read a joined bus. If readOnly is set, it reads a copy of an embedded bus, because a server
// writes to the files it serves. On a joined bus, everything but reading takes the lease.
func withJournal(ctx context.Context, c config.Config, readOnly bool,
	use func(context.Context, *bus.Bus) error,
) (err error) {
	d := &daemon{config: c, log: zap.NewNop(), writer: "command-" + loop.NewNonce(), runID: "`director journal`"}
	if d.config.Director.DataDir, err = filepath.Abs(c.Director.DataDir); err != nil {
		return fmt.Errorf("director: director.data_dir: %w", err)
	}
	var b *bus.Bus
	d.candidate = d.newCandidate(func() *bus.Bus { return b })
	o := lead.BusOptions(d.config)
	o.RunID, o.Leads, o.Log = d.runID, d.candidate.MayWrite, d.log
	switch {
	case !readOnly:
		err = d.lock.Take(ctx, d.config.Director.DataDir)
	case o.URL == "":
		if err = d.lock.TakeToRead(ctx, d.config.Director.DataDir); err != nil {
			break
		}
		var copied string
		if copied, err = os.MkdirTemp("", "retake-journal-"); err == nil {
			defer func() { err = errors.Join(err, os.RemoveAll(copied)) }()
			err = copyBus(copied, &o)
		}
	}
	defer func() { err = errors.Join(err, d.lock.Close()) }()
	if err != nil {
		return err
	}
	if o.URL != "" {
		o.Keys, err = keys.Load(c.AgentBus.Credentials)
	} else {
		o.Server, err = server.Start(ctx, server.Options{
			Dir: o.Dir, Prefix: o.Prefix, Fleet: o.Fleet,
			SyncAlways: !readOnly, Log: d.log,
		})
		readOnly = false // the lock is held, or it is a copy
	}
	if err != nil {
		return err
	}
	if b, err = bus.OpenJournal(ctx, o, readOnly); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close(context.WithoutCancel(ctx))) }()
	if readOnly {
		return use(ctx, b)
	}
	t, err := d.candidate.Take(ctx)
	if err != nil {
		return fmt.Errorf("director: nothing was changed: %w", err)
	}
	defer t.Release()
	return use(t.Context(), b)
}

// copyBus copies the files of a bus that no director uses, with the mirror of the journal's head, and points the
// options to the copy. The archive is not copied, because it is only read.
func copyBus(to string, o *bus.Options) error {
	dir, mirror := filepath.Join(to, "bus"), filepath.Join(to, lead.MirrorFile)
	err := os.CopyFS(dir, os.DirFS(o.Dir))
	if err == nil {
		err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			// keys readable by others are refused, and the copy's permissions depend on the umask
			return os.Chmod(path, 0o600)
		})
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		var data []byte
		if data, err = os.ReadFile(o.Mirror); err == nil {
			err = safefile.Write(mirror, 0o600, data)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("director: the journal is read from a copy in %s (TMPDIR), which cannot be made: %w", to, err)
	}
	o.Dir, o.Mirror = dir, mirror
	return nil
}

// VerifyJournal reads the whole journal and reports what it found. It changes nothing.
func VerifyJournal(ctx context.Context, c config.Config) (v bus.Verification, err error) {
	err = withJournal(ctx, c, true, func(ctx context.Context, b *bus.Bus) error {
		if v, err = b.Journal().Verify(ctx); err != nil || len(v.Damages) > 0 {
			return err
		}
		return verifyStates(ctx, b.Journal(), &v)
	})
	return v, err
}

// verifyStates compares the snapshots of a sound journal with the states that its batches lead to. It starts at the
// beginning or, if that is gone, at the oldest snapshot.
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
			s.Fault = "this version cannot use it: " + err.Error()
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
			s.Fault = "its state is not the one that the batches lead to"
			v.Damages = append(v.Damages, &bus.Damage{
				Kind: chain.Fork, Seq: s.Seq,
				Want: "the state that the batches lead to", Got: "another one in the snapshot",
			})
		}
	}
	return nil
}

// replayTo applies the batches after a head, up to sequence last.
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

// ExportJournal writes the journal, with archived batches, and the newest snapshot to a file.
func ExportJournal(ctx context.Context, c config.Config, file string) (t chain.Trailer, err error) {
	err = withJournal(ctx, c, true, func(ctx context.Context, b *bus.Bus) error {
		t, err = b.Journal().Export(ctx, file)
		return err
	})
	return t, err
}

// ImportJournal restores an exported journal. The current journal must be empty, unless aside names a file to which
// it is moved.
func ImportJournal(ctx context.Context, c config.Config, file, aside string) (t chain.Trailer, err error) {
	err = withJournal(ctx, c, false, func(ctx context.Context, b *bus.Bus) error {
		if _, err := chain.Read(file, nil, nil); err != nil { // before anything is moved
			return fmt.Errorf("director: import: %w", err)
		}
		if aside != "" {
			if err := b.Journal().Replace(ctx, aside); err != nil {
				return err
			}
		}
		if t, err = b.Journal().Import(ctx, file); err != nil {
			return err
		}
		return restore.ForgetRebuild(ctx, c, b) // the import replaces the rebuild that was pending
	})
	return t, err
}

// makeRoom lets a session begin whose live journal is nearly full. The session must append a batch to begin, and
// only batches older than two snapshots can leave the live journal.
func (s *session) makeRoom(ctx context.Context, h *restore.State) {
	crowded, err := s.bus.Journal().Crowded(ctx)
	if err != nil || !crowded {
		return // the first append will show the problem
	}
	s.log.Warn("the live journal is more than half full: room is made before anything is appended")
	if h.Head.Seq > h.Saved {
		data, err := h.Machine.Snapshot()
		if err != nil {
			s.log.Warn("snapshot not made", zap.Error(err))
		}
		s.save(ctx, savedState{h.Head, data})
	}
	s.retireJournal(ctx)
}

// beforeSnapshot names the part of the live journal that a start skips. verifyRest is the pause after each batch of
// it that is read later.
const (
	beforeSnapshot = "the live journal before its snapshot"
	verifyRest     = 2 * time.Millisecond
)

// verifyJournal reads the part of the live journal that the start skipped: everything before the snapshot at the
// given sequence. It reports damage, which affects no state. It retries what cannot be read at the moment.
func (s *session) verifyJournal(ctx context.Context, snapshot uint64) {
	s.unusable.Delete(beforeSnapshot)
	if snapshot == 0 { // the start has read the whole journal
		return
	}
	var n uint64
	err := failure.Retry(ctx, failure.Pauses(s.setup().Director.Interval, retireMost), 0, func() (err error) {
		if n, err = s.bus.Journal().VerifyLive(ctx, snapshot, verifyRest); errors.Is(err, bus.ErrDamaged) {
			return backoff.Permanent(err)
		}
		return err
	}, func(err error, pause time.Duration) {
		s.log.Warn("the journal before its snapshot is not verified yet", zap.Error(err), zap.Duration("in", pause))
	})
	switch {
	case ctx.Err() != nil:
	case err != nil:
		s.unusable.Store(beforeSnapshot, err.Error()+", before its snapshot: no state needs that, and it cannot be "+
			"exported; `director journal verify` names all of it")
		s.log.Error("the journal is damaged before its snapshot", zap.Error(err))
	default:
		s.log.Info("the journal before its snapshot is as it was written", zap.Uint64("batches", n))
	}
}

// retireMost is the longest pause before retiring is retried, because a try may read a lot.
const retireMost = 10 * time.Minute

// retries schedules the retries of retireJournal with doubling pauses. Only housekeeping uses it. Each session
// begins with one try, because the previous session's may have failed.
type retries struct {
	at    time.Time     // time of the next try
	pause time.Duration // the last pause, or 0 after a success
	done  bool          // no try is due before the next snapshot
}

func (r *retries) due(now time.Time) bool { return !r.done && !now.Before(r.at) }

// ended records the result of a try.
func (r *retries) ended(now time.Time, first time.Duration, err error) {
	if err == nil {
		*r = retries{done: true}
		return
	}
	r.pause = min(max(2*r.pause, first), retireMost)
	r.at, r.done = now.Add(r.pause), false
}

// retireJournal moves batches that no restart needs out of the live journal.
func (s *session) retireJournal(ctx context.Context) {
	err := s.bus.Journal().Retire(ctx, time.Now())
	if ctx.Err() != nil {
		return
	}
	s.retires.ended(time.Now(), s.setup().Director.Interval, err)
	if s.resave = errors.Is(err, bus.ErrSnapshot); s.resave {
		s.saved = 0 // the snapshot there may be the unreadable one
	}
	if err == nil {
		s.unusable.Delete(lead.ArchiveDir)
		return
	}
	s.unusable.Store(lead.ArchiveDir, "the live journal is not shortened: "+err.Error())
	s.log.Warn("the live journal is not shortened; it is tried again", zap.Duration("in", s.retires.pause),
		zap.Error(err))
}

// journalChecked ends a session whose journal the server has lost. A missing answer proves nothing.
func (s *session) journalChecked(ctx context.Context, last uint64) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := s.bus.Journal().Check(ctx, last)
	if err != nil {
		return fmt.Errorf("%w: %w", loop.ErrReload, err)
	}
	return nil
}
