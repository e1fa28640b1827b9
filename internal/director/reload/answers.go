package reload

import (
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/director/operator"
)

// reloadWait limits how long /reload waits for the journal.
const reloadWait = 3 * time.Second

// ServeHTTP answers POST /reload.
func (r *Reader) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	read := r.Reread("director reload")
	status := http.StatusOK
	if len(read.Problems) > 0 {
		status = http.StatusUnprocessableEntity
	} else if now := r.InForce.Load(); now.Decided() != nil {
		late := time.NewTimer(reloadWait)
		defer late.Stop()
		select {
		case <-now.Decided():
		case <-late.C:
			read.Pending = true
		case <-req.Context().Done():
		}
	}
	operator.Respond(w, status, read)
}

// State returns the last reading for status queries.
func (r *Reader) State() *wire.SnapshotConfig {
	last := r.last.Load()
	if last == nil {
		return nil
	}
	file := r.File
	if abs, err := filepath.Abs(file); file != "" && err == nil {
		file = abs
	}
	return &wire.SnapshotConfig{
		File: file, ReadAt: wire.At(last.At), By: last.By, Digest: last.Digest, Since: wire.At(last.Since),
		Restart: last.Restart, Problems: last.Problems,
	}
}

// Problem describes a rejected configuration, or returns "" if the last one was accepted.
func (r *Reader) Problem() string {
	last := r.last.Load()
	if last == nil || len(last.Problems) == 0 {
		return ""
	}
	return fmt.Sprintf("the configuration read at %s was rejected (%s), so the one read at %s stays in effect: "+
		"director status shows each problem",
		last.At.Format(time.RFC3339), countOf(len(last.Problems), "problem"), last.Since.Format(time.RFC3339))
}

func countOf(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
