package serve

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/director/operator"
)

// WholeJournal answers the requests that read the whole journal, one at a time. It opens the journal a second time,
// read-only, so it does not slow the owner down. Its methods are safe for concurrent use.
type WholeJournal struct {
	Bus    *bus.Bus
	Verify func(context.Context, *bus.Journal) (bus.Verification, error)
	Log    *zap.Logger

	busy sync.Mutex
}

// with opens the journal and passes it to use. It refuses the request if either fails, or while another request is
// reading the journal.
func (j *WholeJournal) with(w http.ResponseWriter, r *http.Request, use func(*bus.Journal) error) {
	if !j.busy.TryLock() {
		operator.Refuse(w, http.StatusServiceUnavailable, "another command is reading the whole journal: try again "+
			"later")
		return
	}
	defer j.busy.Unlock()
	found, err := bus.FindJournal(r.Context(), j.Bus)
	if err == nil {
		err = errors.Join(use(found), found.Close())
	}
	switch {
	case errors.Is(err, bus.ErrDamaged):
		operator.Refuse(w, http.StatusUnprocessableEntity, err.Error())
	case err != nil:
		operator.Refuse(w, http.StatusServiceUnavailable, err.Error())
	}
}

// verify answers with a bus.Verification, which lists all damage to the journal.
func (j *WholeJournal) verify(w http.ResponseWriter, r *http.Request) {
	j.with(w, r, func(found *bus.Journal) error {
		v, err := j.Verify(r.Context(), found)
		if err == nil {
			operator.Respond(w, http.StatusOK, v)
		}
		return err
	})
}

// export answers with the file of `director journal export`. It first writes the file to TMPDIR, so that it can
// refuse a damaged journal before the answer begins.
func (j *WholeJournal) export(w http.ResponseWriter, r *http.Request) {
	j.with(w, r, func(found *bus.Journal) (err error) {
		dir, err := os.MkdirTemp("", "retake-export-")
		if err != nil {
			return err
		}
		defer func() {
			if err := os.RemoveAll(dir); err != nil {
				j.Log.Warn("could not remove the copy of an export", zap.String("dir", dir), zap.Error(err))
			}
		}()
		file := filepath.Join(dir, "journal.jsonl.zst")
		if _, err := found.Export(r.Context(), file); err != nil {
			return err
		}
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		w.Header().Set("Content-Type", "application/zstd")
		_, _ = io.Copy(w, f) // a closed connection is not our error
		return nil
	})
}
