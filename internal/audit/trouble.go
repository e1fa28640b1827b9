package audit

import (
	"errors"
	"syscall"
	"time"

	"go.uber.org/zap"
)

// wholeDisk are errors that any write of the same kind would meet; others concern one file.
var wholeDisk = []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO, syscall.EMFILE, syscall.ENFILE}

const (
	// quiet is how long the same trouble is not mentioned again after it was: a disk that is nearly full fails and works in turns.
	quiet = time.Minute
	// mostTroubles bounds what is remembered.
	mostTroubles = 256
)

// trouble says once that something cannot be written, and once that it can again.
type trouble struct {
	log    *zap.Logger
	now    func() time.Time
	said   map[string]time.Time // when a trouble was last mentioned
	lost   map[string]uint64    // failures since; a key that is in the map is in trouble
	errors uint64
	last   error
}

func newTrouble(log *zap.Logger, now func() time.Time) *trouble {
	return &trouble{log: log, now: now, said: map[string]time.Time{}, lost: map[string]uint64{}}
}

// ended takes the outcome of one write. What is one of the kinds of files (events, audits, state, report).
func (t *trouble) ended(what, path string, err error) {
	if err == nil {
		t.works(what)
		t.works(path)
		return
	}
	t.errors, t.last = t.errors+1, err
	key := path
	for _, e := range wholeDisk {
		if errors.Is(err, e) {
			key = what
		}
	}
	if t.lost[key]++; t.lost[key] > 1 {
		return
	}
	if len(t.lost) > mostTroubles {
		delete(t.lost, key)
		return
	}
	if at, ok := t.said[key]; ok && t.now().Sub(at) < quiet {
		return
	}
	t.forget()
	t.said[key] = t.now()
	t.log.Error("audit files cannot be written; the work goes on without them", zap.String("what", what), zap.String("path", path), zap.Error(err))
}

func (t *trouble) works(key string) {
	lost, ok := t.lost[key]
	if !ok {
		return
	}
	delete(t.lost, key)
	if t.said[key].IsZero() {
		return
	}
	t.log.Info("audit files are written again", zap.String("what", key), zap.Uint64("lost", lost))
}

// forget drops what is too old to matter.
func (t *trouble) forget() {
	for key, at := range t.said {
		if _, on := t.lost[key]; !on && t.now().Sub(at) >= quiet {
			delete(t.said, key)
		}
	}
}
