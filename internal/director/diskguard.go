package director

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"retake/internal/fsm"
	"retake/internal/recovery"
	"retake/internal/sys/diskfault"
)

const (
	guardEvery = time.Second
	// probeEvery is how often something is written to a disk that looks well.
	probeEvery = 5 * time.Second
	probeBytes = 64 << 10 // a few batches of the journal
	// slowDisk is how long that may take.
	slowDisk = 5 * time.Second
	// leadsOnBadDisk is how long a director leads whose disk cannot be written, if another one may lead.
	leadsOnBadDisk = time.Minute
	// holdFor is for how long one look at a bad disk keeps new work back.
	holdFor = time.Minute
	// reservePart bounds the reserve of a small disk: one part of so many.
	reservePart = 20
)

// Files in the data directory: what is given up when the disk is full, and what is written to see whether it can be.
const (
	reserveFile = "reserve"
	probeFile   = "probe"
)

// diskState is what a look at the disk of the data directory found.
type diskState struct {
	failed error  // it cannot be written now
	late   error  // it has not answered yet: whether it can be written is not known
	note   string // it can, but it is full beyond the watermark
	wrote  bool   // it was written to, or that was tried

	since time.Time // nothing may be written; zero: it may
}

// problem is what a person is told; empty: all is well.
func (l diskState) problem() string {
	if err := l.unusable(); err != nil {
		return err.Error()
	}
	return l.note
}

// unusable says why nothing may be written now; nil: it may.
func (l diskState) unusable() error { return cmp.Or(l.late, l.failed) }

// after is what is known of the disk when a look follows another: one that has not written, or has not ended,
// does not take back that writing failed.
func (l diskState) after(last diskState) diskState {
	if !l.wrote {
		l.failed = cmp.Or(l.failed, last.failed)
	}
	return l
}

// lookAtDisk looks at the disk of the data directory, and writes to it, if that is asked for. It keeps the
// reserve. A disk that hangs keeps it, too. Of the one that checkouts are on, if that is another, it looks how
// full it is.
func (d *daemon) lookAtDisk(write bool) (l diskState) {
	dir, watermark := d.config.Director.DataDir, d.setup().Director.DiskWatermark
	if err := d.lock.renew(dir); err != nil {
		return diskState{failed: err}
	}
	use, err := useOf(dir)
	if err != nil {
		return diskState{failed: diskFailure(err)}
	}
	l.note = use.past(watermark, "director.data_dir")
	reserved := d.keepReserve(use, l.note == "")
	if l.wrote = write || l.note != ""; l.wrote {
		err := d.probeDisk(dir)
		if reserved && diskfault.Of(err) == diskfault.Full {
			d.giveUpReserve()
			err = d.probeDisk(dir)
		}
		l.failed = diskFailure(err)
	}
	if shared := d.sharedDir(); shared != dir && l.note == "" { // the journal is not there, but what is begun is
		if use, err := useOf(shared); err != nil {
			l.note = fmt.Sprintf("director.shared_dir is not there: nothing new is begun (%v)", err)
		} else {
			l.note = use.past(watermark, d.sharedKey())
		}
	}
	return l
}

// past says that a disk is fuller than the watermark; empty: it is not.
func (u diskUse) past(watermark float64, of string) string {
	for kind, what := range [...]string{
		"%.1f %% of the disk of %s are used",
		"%.1f %% of the files that the disk of %s can have are used",
	} {
		if k := u[kind]; watermark > 0 && k.used+k.free > 0 && u.room(kind, watermark) <= 0 {
			return fmt.Sprintf(what+" (director.disk_watermark = %v): nothing new is begun until there is room",
				u.percent(kind), of, watermark)
		}
	}
	return ""
}

// probe writes a file and syncs it.
func probe(dir string) error {
	name := filepath.Join(dir, probeFile)
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, probeBytes))
	// its room is not kept: the journal would have none
	return errors.Join(cmp.Or(err, f.Sync()), f.Close(), os.Remove(name))
}

// diskFailure says what a failed write means.
func diskFailure(err error) error {
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
func (d *daemon) keepReserve(use diskUse, room bool) bool {
	size := min(d.config.Director.DiskReserveBytes(), (use[0].used+use[0].free)/reservePart)
	name := filepath.Join(d.config.Director.DataDir, reserveFile)
	info, err := os.Lstat(name)
	has := err == nil && info.Size() > 0
	switch {
	case has && (use[0].free < size/4 || size == 0):
		d.giveUpReserve()
		return false
	case has || !room || size == 0 || use[0].free < 4*size || d.noReserve:
		return has
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		err = errors.Join(unix.Fallocate(int(f.Fd()), 0, 0, size), f.Close())
	}
	if err != nil {
		d.noReserve = true
		d.log.Warn("no space is reserved for the journal", zap.Error(errors.Join(err, os.Remove(name))))
	}
	return err == nil
}

// giveUpReserve makes room for the journal on a full disk.
func (d *daemon) giveUpReserve() {
	if err := os.Remove(filepath.Join(d.config.Director.DataDir, reserveFile)); err == nil {
		d.log.Warn("the disk of director.data_dir is full: the space that was reserved for the journal is given up " +
			"(director.disk_reserve)")
	}
}

// askDisk is lookAtDisk for callers that cannot wait for a disk that hangs. The look itself goes on then, and
// is waited for by the next call.
func (d *daemon) askDisk(ctx context.Context, write bool, patience time.Duration) diskState {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		if d.looking == nil {
			look := make(chan diskState, 1)
			d.looking, d.lookedAt = look, time.Now()
			go func() { look <- d.lookAtDisk(write) }()
		}
		select {
		case l := <-d.looking:
			d.looking = nil
			if l.wrote || !write || l.failed != nil { // else it is an earlier call's, which asked for less
				return l
			}
		case <-late.C:
			return diskState{late: fmt.Errorf("the disk of director.data_dir has not answered for %s",
				time.Since(d.lookedAt).Round(time.Second))}
		case <-ctx.Done():
			return diskState{late: context.Cause(ctx)}
		}
	}
}

// noteDisk keeps what a look at the disk has found.
func (d *daemon) noteDisk(l diskState) {
	if l.unusable() != nil {
		if l.since = d.diskNow().since; l.since.IsZero() {
			l.since = time.Now()
		}
	}
	d.disk.Store(&l)
}

// able: the disk lets this director lead. One that fails for a moment does.
func (d *daemon) able() bool {
	since := d.diskNow().since
	return since.IsZero() || time.Since(since) < d.badDiskFor
}

// diskNow is what the last look at the disk has found.
func (d *daemon) diskNow() diskState {
	if l := d.disk.Load(); l != nil {
		return *l
	}
	return diskState{}
}

// guardDisk holds new work back while the disk of the data directory is full or fails, and says so. When it can
// be written again, the session ends and the bus is opened anew: a server that once failed to write goes on
// refusing.
func (s *session) guardDisk(ctx context.Context) error {
	tick := time.NewTicker(guardEvery)
	defer tick.Stop()
	var probed, held time.Time
	last, closed := diskState{}, true // perhaps, by an earlier session
	for {
		write := last.problem() != "" || time.Since(probed) >= probeEvery
		now := s.askDisk(ctx, write, slowDisk).after(last)
		if ctx.Err() != nil {
			return nil
		}
		if now.wrote {
			probed = time.Now()
		}
		what := now.problem()
		s.noteDisk(now)
		switch {
		case what != "" && last.problem() == "":
			s.log.Warn("nothing new is begun: "+what, zap.Bool("writable", now.unusable() == nil))
		case what == "" && last.problem() != "":
			s.log.Info("the disk of director.data_dir is well again")
		}
		if last.failed != nil && now.failed == nil {
			s.readAgain(errors.New("the disk of director.data_dir can be written again"))
		}
		switch {
		case what != "" && time.Since(held) >= holdFor/2:
			held, closed = time.Now(), true
			s.owner.Send(ctx, fsm.CooldownReported{
				Resource: recovery.Host, Until: s.owner.Clock.Now().Add(holdFor),
				Why: what,
			}, nil)
		case what == "" && closed:
			held, closed = time.Time{}, false
			s.owner.Send(ctx, fsm.LiftCommanded{Resource: recovery.Host}, nil)
		}
		last = now
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
