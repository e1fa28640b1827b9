package main

import (
	"fmt"
	"path/filepath"
	"testing"

	"retake/internal/bus/chain"
)

// TestJournalCommandsBesideDirectors verifies and exports the journal of a joined bus while one director leads and
// keeps deciding, and another stands by. Each export is complete up to its end, and longer than the one before.
func TestJournalCommandsBesideDirectors(t *testing.T) {
	lead, standby, w := newTwins(t, true, "sleep 1")
	lead.start()
	wait(t, "the first one leads", lead.leads)
	standby.start()
	wait(t, "the second one stands by", standby.standsBy)
	last := uint64(0)
	for n := range 3 {
		key := w.issue(fmt.Sprint("Add a frobnicator ", n))
		for _, d := range []*twin{lead, standby} {
			contains(t, d.says(0, "director journal verify -c c.toml"), "whole", "!DAMAGED")
			file := fmt.Sprintf("out%d.jsonl.zst", n)
			contains(t, d.says(0, "director journal export "+file+" -c c.toml"), " batches, up to ")
			if _, err := chain.Read(filepath.Join(d.dir, file), nil, nil); err != nil {
				t.Errorf("export %d: %v", n, err)
			}
		}
		w.handedIn(key, 1)
		f, err := exported(lead, n)
		if err != nil || f.Trailer.Head.Seq <= last {
			t.Errorf("export %d ends at %d, the one before at %d: %v", n, f.Trailer.Head.Seq, last, err)
		}
		last = f.Trailer.Head.Seq
	}
	if !lead.leads() || !standby.standsBy() {
		t.Error("a command has changed the leader")
	}
}

// exported exports the journal with the command of director d. n is the number in the file's name.
func exported(d *twin, n int) (chain.File, error) {
	d.t.Helper()
	file := fmt.Sprintf("end%d.jsonl.zst", n)
	d.says(0, "director journal export "+file+" -c c.toml")
	return chain.Read(filepath.Join(d.dir, file), nil, nil)
}
