package chain

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"retake/internal/safefile"
)

// segmentExt is the extension of a segment file. The rest of the name is <first>-<last> with leading zeros, so that
// names sort in the order of the journal.
const segmentExt = ".jsonl.zst"

// Segment is an archived part of the journal: a File in the archive's directory.
type Segment struct {
	Path        string
	First, Last uint64 // sequences of the first and the last batch, from the file name
	Bytes       int64
	At          time.Time // when it was archived
}

// SegmentPath returns the path of the segment that holds the batches first to last.
func SegmentPath(dir string, first, last uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%012d-%012d%s", first, last, segmentExt))
}

// Segments lists the segments in an archive's directory in the order of the journal. It ignores other files, and
// returns an empty list for a missing directory.
func Segments(dir string) ([]Segment, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []Segment
	for _, e := range entries {
		var s Segment
		if n, err := fmt.Sscanf(e.Name(), "%d-%d"+segmentExt, &s.First, &s.Last); n != 2 || err != nil ||
			SegmentPath(dir, s.First, s.Last) != filepath.Join(dir, e.Name()) {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		s.Path, s.Bytes, s.At = filepath.Join(dir, e.Name()), info.Size(), info.ModTime()
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Segment) int { return cmp.Compare(a.First, b.First) })
	return all, nil
}

// Expire removes the segments that were archived before the given time. It starts with the oldest segment and stops at
// the first newer one, so it never leaves a gap.
func Expire(dir string, before time.Time) error {
	all, err := Segments(dir)
	if err != nil {
		return err
	}
	gone := false
	for _, s := range all {
		if !s.At.Before(before) {
			break
		}
		if err := os.Remove(s.Path); err != nil {
			return err
		}
		gone = true
	}
	if !gone {
		return nil
	}
	return safefile.SyncDir(dir)
}
