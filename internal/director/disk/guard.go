package disk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"retake/internal/sys/diskfault"
)

const (
	// ProbeEvery is how often something is written to a disk that looks well.
	ProbeEvery = 5 * time.Second
	probeBytes = 64 << 10 // a few batches of the journal
	// Slow is how long a look at a disk may take.
	Slow = 5 * time.Second
	// reservePart bounds the reserve of a small disk: one part of so many.
	reservePart = 20
)

// Files in the data directory: what is given up when the disk is full, and what is written to see whether it can be.
const (
	reserveFile = "reserve"
	probeFile   = "probe"
)

// Guard looks at the disk of a data directory, and keeps a reserve on it for the journal. Set its exported
// fields before the first look. One goroutine asks; any may call Now and Able.
type Guard struct {
	Dir       string         // the data directory
	Shared    string         // the folder that checkouts are in, maybe the same one
	SharedKey string         // the key that names it to people
	Reserve   int64          // bytes kept for the journal
	Watermark func() float64 // in percent; 0: how full it is does not matter
	Renew     func() error   // takes the lock of the folder anew, if it is another one than before
	BadFor    time.Duration  // for how long a process leads whose disk cannot be written
	Log       *zap.Logger
	Probe     func(dir string) error // Probe, unless a test has another one

	state     atomic.Pointer[State] // at the last look; nil: there was none yet
	noReserve bool                  // the disk cannot reserve space; of the look at it
	looking   chan State            // the look at the disk that is under way; nil: none is
	lookedAt  time.Time             // when it began
}

// State is what a look at the disk of the data directory found.
type State struct {
	Failed error  // it cannot be written now
	Note   string // it can be written, but is full beyond the watermark
	Wrote  bool   // it was written to, or that was tried
	Late   error  // it has not answered yet: whether it can be written is not known

	since time.Time // since when nothing may be written; zero: it may
}

// Problem describes what is wrong for people; empty means that all is well.
func (l State) Problem() string {
	if err := l.Unusable(); err != nil {
		return err.Error()
	}
	return l.Note
}

// Unusable returns why nothing may be written now; nil means that it may.
func (l State) Unusable() error { return cmp.Or(l.Late, l.Failed) }

// After returns what is known of the disk when a look follows another: one that has not written, or has not ended,
// does not prove that writing works again.
func (l State) After(last State) State {
	if !l.Wrote {
		l.Failed = cmp.Or(l.Failed, last.Failed)
	}
	return l
}

// look looks at the disk of the data directory, and writes to it, if that is asked for. It keeps the
// reserve. A disk that hangs keeps it, too. Of the one that checkouts are on, if that is another, it looks how
// full it is.
func (g *Guard) look(write bool) (l State) {
	dir, watermark := g.Dir, g.Watermark()
	if err := g.Renew(); err != nil {
		return State{Failed: err}
	}
	use, err := UseOf(dir)
	if err != nil {
		return State{Failed: failure(err)}
	}
	l.Note = use.past(watermark, "director.data_dir")
	reserved := g.keepReserve(use, l.Note == "")
	if l.Wrote = write || l.Note != ""; l.Wrote {
		err := g.Probe(dir)
		if reserved && diskfault.Of(err) == diskfault.Full {
			g.giveUpReserve()
			err = g.Probe(dir)
		}
		l.Failed = failure(err)
	}
	if shared := g.Shared; shared != dir && l.Note == "" { // the journal is not there, but what is begun is
		if use, err := UseOf(shared); err != nil {
			l.Note = fmt.Sprintf("director.shared_dir is not there: nothing new is begun (%v)", err)
		} else {
			l.Note = use.past(watermark, g.SharedKey)
		}
	}
	return l
}

// Probe writes a file and syncs it.
func Probe(dir string) error {
	name := filepath.Join(dir, probeFile)
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, probeBytes))
	// its room is not kept: the journal would have none
	return errors.Join(cmp.Or(err, f.Sync()), f.Close(), os.Remove(name))
}

// failure says what a failed write means.
func failure(err error) error {
	const disk = "the disk of director.data_dir "
	switch {
	case err == nil:
		return nil
	case diskfault.Of(err) == diskfault.Full:
		return fmt.Errorf(disk+"is full: make room (%w)", err)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf(disk+"is read-only: mount it so that it can be written, after looking at the kernel's log "+
			"for the reason (%w)", err)
	}
	return fmt.Errorf(disk+"cannot be written: %w", err)
}

// keepReserve makes the reserve while there is room, and gives it up when the rest of the disk is nearly used.
// It reports whether there is one.
func (g *Guard) keepReserve(use Use, room bool) bool {
	size := min(g.Reserve, (use[Bytes].Used+use[Bytes].Free)/reservePart)
	name := filepath.Join(g.Dir, reserveFile)
	info, err := os.Lstat(name)
	has := err == nil && info.Size() > 0
	switch {
	case has && (use[Bytes].Free < size/4 || size == 0):
		g.giveUpReserve()
		return false
	case has || !room || size == 0 || use[Bytes].Free < 4*size || g.noReserve:
		return has
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		err = errors.Join(unix.Fallocate(int(f.Fd()), 0, 0, size), f.Close())
	}
	if err != nil {
		g.noReserve = true
		g.Log.Warn("no space is reserved for the journal", zap.Error(errors.Join(err, os.Remove(name))))
	}
	return err == nil
}

// giveUpReserve makes room for the journal on a full disk.
func (g *Guard) giveUpReserve() {
	if err := os.Remove(filepath.Join(g.Dir, reserveFile)); err == nil {
		g.Log.Warn("the disk of director.data_dir is full: the space that was reserved for the journal is given up " +
			"(director.disk_reserve)")
	}
}

// Ask looks at the disk, and writes to it if that is asked for. It gives up after patience: the look goes on then, and
// the next call waits for it.
func (g *Guard) Ask(ctx context.Context, write bool, patience time.Duration) State {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		if g.looking == nil {
			look := make(chan State, 1)
			g.looking, g.lookedAt = look, time.Now()
			go func() { look <- g.look(write) }()
		}
		select {
		case l := <-g.looking:
			g.looking = nil
			if l.Wrote || !write || l.Failed != nil { // else it is an earlier call's, which asked for less
				return l
			}
		case <-late.C:
			return State{Late: fmt.Errorf("the disk of director.data_dir has not answered for %s",
				time.Since(g.lookedAt).Round(time.Second))}
		case <-ctx.Done():
			return State{Late: context.Cause(ctx)}
		}
	}
}

// Keep makes what a look found the state of now.
func (g *Guard) Keep(l State) {
	if l.Unusable() != nil {
		if l.since = g.Now().since; l.since.IsZero() {
			l.since = time.Now()
		}
	}
	g.state.Store(&l)
}

// Able reports whether this process can lead: its disk can be written, or could a moment ago.
func (g *Guard) Able() bool {
	since := g.Now().since
	return since.IsZero() || time.Since(since) < g.BadFor
}

// Now returns what the last look found.
func (g *Guard) Now() State {
	if l := g.state.Load(); l != nil {
		return *l
	}
	return State{}
}
