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
	// ProbeEvery is the interval between test writes to a healthy disk.
	ProbeEvery = 5 * time.Second
	probeBytes = 64 << 10 // the size of a few journal batches
	// Slow is the time limit for one check of a disk.
	Slow = 5 * time.Second
	// reservePart limits the reserve on a small disk to 1/reservePart of the disk.
	reservePart = 20
)

// Files in the data directory: the reserve, which the guard deletes when the disk is full, and the file for test
// writes.
const (
	reserveFile = "reserve"
	probeFile   = "probe"
)

// Guard checks the disk of a data directory, and reserves space on it for the journal. Set the exported fields before
// the first check. Only one goroutine may call Ask. Now and Able are safe for concurrent use.
type Guard struct {
	Dir       string         // the data directory
	Shared    string         // the checkout directory, which may equal Dir
	SharedKey string         // the configuration key for Shared
	Reserve   int64          // bytes reserved for the journal
	Watermark func() float64 // maximum use in percent before new work stops; 0 disables this limit
	Renew     func() error   // takes the directory's lock again after someone replaced the directory
	BadFor    time.Duration  // how long a leader may keep leading with an unwritable disk
	Log       *zap.Logger
	Probe     func(dir string) error // makes a test write; the function Probe, except in tests

	state     atomic.Pointer[State] // result of the last check; nil before the first one
	noReserve bool                  // set when the disk cannot reserve space; only look uses it
	looking   chan State            // receives the result of the running check; nil if no check runs
	lookedAt  time.Time             // when the running check began
}

// State is the result of a check of the data directory's disk.
type State struct {
	Failed error  // set if the disk is not writable
	Note   string // set if a disk is fuller than the watermark, or the directory Shared is missing
	Wrote  bool   // the check made a test write, successful or not
	Late   error  // set if the check timed out, so it is unknown whether the disk is writable

	since time.Time // when the disk became unwritable, or zero
}

// Problem describes the problem for an operator, or returns "" for a healthy disk.
func (l State) Problem() string {
	if err := l.Unusable(); err != nil {
		return err.Error()
	}
	return l.Note
}

// Unusable returns the reason not to write to the disk now, or nil.
func (l State) Unusable() error { return cmp.Or(l.Late, l.Failed) }

// After returns the state after this check, given the previous state. A failure persists until a test write succeeds,
// because a check without a write is inconclusive.
func (l State) After(last State) State {
	if !l.Wrote {
		l.Failed = cmp.Or(l.Failed, last.Failed)
	}
	return l
}

// look checks the disk of the data directory, and the free space for the checkouts if they are in another directory. It
// makes a test write if write is set or the disk is fuller than the watermark, and it maintains the reserve. It blocks
// while the disk hangs.
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
	if shared := g.Shared; shared != dir && l.Note == "" { // the journal is elsewhere, but new work needs this disk
		if use, err := UseOf(shared); err != nil {
			l.Note = fmt.Sprintf("the directory director.shared_dir is missing, so no new work starts (%v)", err)
		} else {
			l.Note = use.past(watermark, g.SharedKey)
		}
	}
	return l
}

// Probe writes a file in dir, syncs it, and removes it.
func Probe(dir string) error {
	name := filepath.Join(dir, probeFile)
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, probeBytes))
	// remove the file, because the journal may need its space
	return errors.Join(cmp.Or(err, f.Sync()), f.Close(), os.Remove(name))
}

// failure explains a failed write to the data directory.
func failure(err error) error {
	const disk = "the disk holding director.data_dir "
	switch {
	case err == nil:
		return nil
	case diskfault.Of(err) == diskfault.Full:
		return fmt.Errorf(disk+"is full: free some space (%w)", err)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf(disk+"is read-only: find the reason in the kernel's log, then mount it read-write again "+
			"(%w)", err)
	}
	return fmt.Errorf(disk+"cannot be written to: %w", err)
}

// keepReserve creates the reserve while the disk has room, and deletes it when the disk is nearly full. It reports
// whether the reserve exists.
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
		g.Log.Warn("could not reserve space for the journal", zap.Error(errors.Join(err, os.Remove(name))))
	}
	return err == nil
}

// giveUpReserve deletes the reserve, so that the journal can use its space.
func (g *Guard) giveUpReserve() {
	if err := os.Remove(filepath.Join(g.Dir, reserveFile)); err == nil {
		g.Log.Warn("the disk holding director.data_dir is full: released the space reserved for the journal " +
			"(director.disk_reserve)")
	}
}

// Ask checks the disk, with a test write if write is set. If the check takes longer than patience, Ask returns with
// Late set. The check then continues in the background, and the next call waits for it.
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
			if l.Wrote || !write || l.Failed != nil { // an earlier call may have started a check without a test write
				return l
			}
		case <-late.C:
			return State{Late: fmt.Errorf("the disk holding director.data_dir has not responded for %s",
				time.Since(g.lookedAt).Round(time.Second))}
		case <-ctx.Done():
			return State{Late: context.Cause(ctx)}
		}
	}
}

// Keep stores the result of a check for Now and Able.
func (g *Guard) Keep(l State) {
	if l.Unusable() != nil {
		if l.since = g.Now().since; l.since.IsZero() {
			l.since = time.Now()
		}
	}
	g.state.Store(&l)
}

// Able reports whether this process can lead: its disk is writable, or was writable within the last BadFor.
func (g *Guard) Able() bool {
	since := g.Now().since
	return since.IsZero() || time.Since(since) < g.BadFor
}

// Now returns the result of the last check. It never blocks.
func (g *Guard) Now() State {
	if l := g.state.Load(); l != nil {
		return *l
	}
	return State{}
}

// Watch checks the disk with test writes until ctx is done.
func (g *Guard) Watch(ctx context.Context) {
	for ctx.Err() == nil {
		if l := g.Ask(ctx, true, Slow); ctx.Err() == nil {
			g.Keep(l)
		}
		select {
		case <-time.After(ProbeEvery):
		case <-ctx.Done():
		}
	}
}
