package disk

import (
	"fmt"

	"github.com/docker/go-units"
)

// Watch decides which attempt to stop when the disk fills up. It must not blame an attempt for files that already
// existed, so it compares disk use, per attempt and in total, with an earlier measurement. It replaces that measurement
// whenever the free space has halved or doubled.
type Watch struct {
	Watermark float64 // maximum use in percent
	Of        string  // configuration key for the directory on the disk
	seen      bool
	disk      Use // disk use at the start of the comparison
	attempts  map[string]mark
}

// mark records the size of an attempt's checkout, and the disk use at that time.
type mark struct {
	disk Use
	own  [kinds]int64
}

// Blame reports that the disk is filling up, and names the attempt that fills it.
type Blame struct {
	Worker    string // empty if no attempt is to blame
	Kind      int
	of        string // configuration key for the directory on the disk
	own, grew int64  // size of the attempt's checkout, and its growth
	disk      int64  // growth of the disk's use in the same period
}

// Measure returns the size of a worker's checkout. If whole is false, the size is a lower bound.
type Measure func(worker string) (own [kinds]int64, whole bool)

// Look compares the use of the disk and of the running attempts with earlier measurements. full reports whether the
// disk is full and its use has grown. b names the attempt that grew most, if its checkout caused at least half the
// growth and is large enough to cover the missing space.
func (w *Watch) Look(now Use, running []string, measure Measure) (b Blame, full bool) {
	kind := -1
	again := !w.seen
	for k := range now {
		if now[k].Used+now[k].Free <= 0 {
			continue
		}
		room, was, least := now.Room(k, w.Watermark), w.disk.Room(k, w.Watermark), now.growth(k)
		switch {
		case room <= 0:
			if w.seen && now[k].Used-w.disk[k].Used >= least && kind < 0 {
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
	w.attempts = map[string]mark{}
	for _, worker := range running {
		before, known := marks[worker]
		if known && kind < 0 {
			w.attempts[worker] = before
			continue
		}
		own, whole := measure(worker)
		if !known {
			if whole { // later measurements cannot be compared with a lower bound
				w.attempts[worker] = mark{disk: now, own: own}
			}
			continue
		}
		w.attempts[worker] = before
		grew, disk := own[kind]-before.own[kind], now[kind].Used-before.disk[kind].Used
		if least := now.growth(kind); grew >= least && disk > 0 && grew >= disk/2 &&
			own[kind] >= -now.Room(kind, w.Watermark) && grew > b.grew {
			b = Blame{Worker: worker, of: w.Of, Kind: kind, own: own[kind], grew: grew, disk: disk}
		}
	}
	return b, kind >= 0
}

// Settled makes the next call to Look start a new comparison. Earlier growth does not count against any attempt.
func (w *Watch) Settled() { w.seen = false }

// String explains why an attempt was stopped.
func (b Blame) String() string {
	if b.Kind == Files {
		return fmt.Sprintf("its checkout has %d files and directories, %d more than before, while the disk holding "+
			"%s gained %d", b.own, b.grew, b.of, b.disk)
	}
	return fmt.Sprintf("its checkout uses %s of the disk holding %s, %s more than before, while use of that disk "+
		"grew by %s",
		units.BytesSize(float64(b.own)), b.of, units.BytesSize(float64(b.grew)), units.BytesSize(float64(b.disk)))
}
