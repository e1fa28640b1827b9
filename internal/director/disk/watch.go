package disk

import (
	"fmt"

	"github.com/docker/go-units"
)

// Watch decides which attempt has to go. It blames no attempt for what was there before: it compares with what
// it saw at its first look, at the attempt's first one, and again whenever the room on the disk has halved or
// doubled.
type Watch struct {
	Watermark float64 // in percent
	Of        string  // the key of the folder that is on the disk
	seen      bool
	disk      Use // at the last comparison
	attempts  map[string]mark
}

// mark is what an attempt's checkout used, and the disk at that time.
type mark struct {
	disk Use
	own  [kinds]int64
}

// Blame names the attempt that fills the disk.
type Blame struct {
	Worker    string // empty: no attempt is known to fill it
	Kind      int
	of        string // the key of the folder that is on the disk
	own, grew int64
	disk      int64 // growth of the disk meanwhile
}

// Measure returns what a checkout uses; if not whole, at least that.
type Measure func(worker string) (own [kinds]int64, whole bool)

// Look takes what the disk and the attempts that run use now. It reports whether the disk is full and has
// grown, and who is to blame for that: the one that grew most, if that is at least half of the disk's growth,
// and stopping it helps.
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
			if whole { // else it is not known what it grows from
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

// Settled begins to compare anew: what was written stays, and only what is added to it counts.
func (w *Watch) Settled() { w.seen = false }

// String says why an attempt is stopped.
func (b Blame) String() string {
	if b.Kind == Files {
		return fmt.Sprintf("its checkout has %d files and folders, %d more than before, while the disk of "+
			"%s got %d more", b.own, b.grew, b.of, b.disk)
	}
	return fmt.Sprintf("its checkout uses %s of the disk of %s, %s more than before, while that got %s fuller",
		units.BytesSize(float64(b.own)), b.of, units.BytesSize(float64(b.grew)), units.BytesSize(float64(b.disk)))
}
