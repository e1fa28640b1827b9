package director

import (
	"context"
	"fmt"
	"time"

	"github.com/docker/go-units"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"retake/internal/bus"
	"retake/internal/fsm"
	"retake/internal/recovery"
	"retake/internal/workspace"
)

const (
	diskEvery = time.Second
	// diskLook bounds a look at the checkouts; diskRest is how often as long as a look there is none.
	diskLook = 30 * time.Second
	diskRest = 5
	// diskWarnEvery is the pause between two warnings of a disk that nobody here is filling.
	diskWarnEvery = 10 * time.Minute
	// diskTries is how often a checkout is walked that changes while it is.
	diskTries = 3
)

// diskUse is what a file system has, as df says it to those who are not root: bytes and files.
type diskUse [2]struct{ used, free int64 }

// diskKinds says what counts as room in bytes and in files, however many percent that is, and what growth is
// worth a look: that, or a hundredth of a smaller disk.
var diskKinds = [len(diskUse{})]struct{ room, growth int64 }{{8 << 30, 1 << 30}, {500_000, 50_000}}

func useOf(dir string) (u diskUse, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return u, err
	}
	u[0].used, u[0].free = int64(st.Blocks-st.Bfree)*st.Bsize,
		int64(st.Bavail)*st.Bsize //nolint:gosec // no disk is that large
	u[1].used, u[1].free = int64(st.Files-st.Ffree),
		int64(st.Ffree) //nolint:gosec // 0 and 0: some do not count
	return u, nil
}

// room is what may be used of a kind until the disk is full: both beyond the watermark and with less left than
// is room anyway. At most 0: it is.
func (u diskUse) room(kind int, watermark float64) int64 {
	k := u[kind]
	return max(int64(float64(k.used+k.free)*watermark/100)-k.used, k.free-diskKinds[kind].room)
}

// growth is what growth of a kind is worth a look.
func (u diskUse) growth(kind int) int64 {
	return max(1, min(diskKinds[kind].growth, (u[kind].used+u[kind].free)/100))
}

func (u diskUse) percent(kind int) float64 {
	return 100 * float64(u[kind].used) / max(1, float64(u[kind].used+u[kind].free))
}

// diskWatch decides which attempt has to go. It blames nobody for what was there: it compares with what it saw
// at the session's first look, at the attempt's first one, and again whenever the room on the disk had halved
// or doubled.
type diskWatch struct {
	watermark float64 // in percent
	of        string  // the key of the folder that is on the disk
	seen      bool
	disk      diskUse // at the last comparison
	attempts  map[string]diskMark
}

// diskMark is what an attempt's checkout used, and the disk at that time.
type diskMark struct {
	disk diskUse
	own  [len(diskUse{})]int64
}

// diskBlame says who fills the disk.
type diskBlame struct {
	worker    string // "": nobody that is known
	of        string // the key of the folder that is on the disk
	kind      int
	own, grew int64
	disk      int64 // growth of the disk meanwhile
}

// measured is what a checkout uses; not whole: at least that.
type measured func(worker string) (own [len(diskUse{})]int64, whole bool)

// look takes what the disk and the attempts that run use now. It reports whether the disk is full and has
// grown, and who is to blame for that: the one that grew most, if that is at least half of the disk's growth,
// and stopping it helps.
func (w *diskWatch) look(now diskUse, running []string, measure measured) (b diskBlame, full bool) {
	kind := -1
	again := !w.seen
	for k := range now {
		if now[k].used+now[k].free <= 0 {
			continue
		}
		room, was, least := now.room(k, w.watermark), w.disk.room(k, w.watermark), now.growth(k)
		switch {
		case room <= 0:
			if w.seen && now[k].used-w.disk[k].used >= least && kind < 0 {
				kind = k
			}
		case room <= was/2 && was-room >= least, room/2 >= was && room-was >= least:
			again = true
		}
	}
	marks := w.attempts
	if again && kind < 0 {
		w.seen, w.disk, marks = true, now, nil
	}
	w.attempts = map[string]diskMark{}
	for _, worker := range running {
		before, known := marks[worker]
		if known && kind < 0 {
			w.attempts[worker] = before
			continue
		}
		own, whole := measure(worker)
		if !known {
			if whole { // else it is not known what it grows from
				w.attempts[worker] = diskMark{disk: now, own: own}
			}
			continue
		}
		w.attempts[worker] = before
		grew, disk := own[kind]-before.own[kind], now[kind].used-before.disk[kind].used
		if least := now.growth(kind); grew >= least && disk > 0 && grew >= disk/2 &&
			own[kind] >= -now.room(kind, w.watermark) && grew > b.grew {
			b = diskBlame{worker: worker, of: w.of, kind: kind, own: own[kind], grew: grew, disk: disk}
		}
	}
	return b, kind >= 0
}

// settled begins to compare anew: what was written stays, and only what is added to it counts.
func (w *diskWatch) settled() { w.seen = false }

// String says why an attempt is stopped.
func (b diskBlame) String() string {
	if b.kind == 1 {
		return fmt.Sprintf("its checkout has %d files and folders, %d more than before, while the disk of "+
			"%s got %d more", b.own, b.grew, b.of, b.disk)
	}
	return fmt.Sprintf("its checkout uses %s of the disk of %s, %s more than before, while that got %s fuller",
		units.BytesSize(float64(b.own)), b.of, units.BytesSize(float64(b.grew)), units.BytesSize(float64(b.disk)))
}

// watchDisk keeps the disk that checkouts are on, mostly that of the data directory, from being filled by an
// attempt: the one that fills it is stopped, and a person is asked. The rest of the disk is the journal's.
func (s *session) watchDisk(ctx context.Context) error {
	w := diskWatch{of: s.sharedKey()}
	tick := time.NewTicker(diskEvery)
	defer tick.Stop()
	var restUntil, warned time.Time
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if w.watermark = s.setup().Director.DiskWatermark; w.watermark == 0 {
			w.settled()
			continue
		}
		use, err := s.diskUse(s.sharedDir())
		if err != nil || time.Now().Before(restUntil) {
			continue
		}
		live := map[string]fsm.Task{}
		var running []string
		for _, t := range s.liveTasks(ctx) {
			live[t.AttemptID()], running = t, append(running, t.AttemptID())
		}
		began := time.Now()
		deadline, cancel := context.WithTimeout(ctx, diskLook)
		blame, full := w.look(use, running, func(worker string) ([len(diskUse{})]int64, bool) {
			u := s.used(deadline, live[worker].Nonce)
			u.Bytes += s.bus.Uploaded(worker) // on the embedded bus: the same disk
			return [...]int64{u.Bytes, u.Files}, u.Whole
		})
		cancel()
		restUntil = time.Now().Add(diskRest * time.Since(began))
		switch {
		case !full:
		case blame.worker != "":
			what := fmt.Sprintf("%s; that is %.1f %% full (director.disk_watermark = %v)", blame,
				use.percent(blame.kind), w.watermark)
			s.log.Warn("an attempt is stopped for the disk", zap.String("issue", string(live[blame.worker].Key)),
				zap.String("worker", blame.worker), zap.String("reason", what))
			s.reportOwn(ctx, blame.worker, bus.DiskID(blame.worker), recovery.ScopeViolation, recovery.TooMuch+what)
			w.settled()
		case warned.IsZero() || time.Since(warned) >= diskWarnEvery:
			warned = time.Now()
			s.log.Warn("the disk of "+w.of+" is nearly full, and no running attempt is known to fill it: make room",
				zap.Float64("percent_of_bytes", use.percent(0)), zap.Float64("percent_of_files", use.percent(1)))
		}
	}
}

// used is what a checkout uses of the disk. One that changes while it is walked is walked again; then the most
// that was seen counts.
func (s *session) used(ctx context.Context, nonce string) (most workspace.Usage) {
	for range diskTries {
		u, err := s.workspace.Used(ctx, nonce)
		if err == nil && u.Whole {
			return u
		}
		most.Bytes, most.Files = max(most.Bytes, u.Bytes), max(most.Files, u.Files)
	}
	return most
}
