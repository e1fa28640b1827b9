package audit

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus/wire"
)

// IndexEntry is one attempt in audits/index.json.
type IndexEntry struct {
	AttemptID string    `json:"attempt_id"`
	Issue     string    `json:"issue"`
	Title     string    `json:"title"`
	Attempt   int       `json:"attempt"`
	Outcome   string    `json:"outcome"`
	Stage     string    `json:"stage,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	Action    string    `json:"action,omitempty"` // what was decided about it
	Signature string    `json:"signature,omitempty"`
	StartedAt wire.Time `json:"started_at,omitzero"`
	EndedAt   wire.Time `json:"ended_at,omitzero"`
	Bytes     int64     `json:"bytes"`

	written time.Time // of meta.json, for an attempt of which no time is known
}

// Index is audits/index.json: the attempts, oldest first.
type Index struct {
	SchemaVersion string       `json:"schema_version"`
	UpdatedAt     wire.Time    `json:"updated_at"`
	Attempts      []IndexEntry `json:"attempts"`
}

func (e IndexEntry) at() time.Time {
	if !e.EndedAt.IsZero() {
		return e.EndedAt.Time
	}
	if !e.StartedAt.IsZero() {
		return e.StartedAt.Time
	}
	return e.written
}

func entryOf(m Meta, size int64) IndexEntry {
	e := IndexEntry{
		AttemptID: m.AttemptID, Issue: m.Issue, Title: m.Title, Attempt: m.Attempt, Outcome: m.Outcome, Stage: m.Stage,
		StartedAt: m.StartedAt, EndedAt: m.EndedAt, Bytes: size,
	}
	if f := m.Failure; f != nil {
		e.Reason, e.Action, e.Signature = f.Reason, f.Action, f.Signature
	}
	return e
}

// bundles are the folders of the attempts, and the index of them. One goroutine uses them.
type bundles struct {
	dir   string // of the whole, not of the audits
	o     Options
	disk  disk
	index map[string]IndexEntry
	dirty bool // the index on disk is older
}

func newBundles(dir string, o Options, d disk) *bundles {
	return &bundles{dir: dir, o: o, disk: d, index: map[string]IndexEntry{}}
}

func (b *bundles) knows(id string) bool { _, ok := b.index[id]; return ok }

func (b *bundles) problem(path string, err error) {
	b.o.Log.Warn("audit file is not readable and is written anew", zap.String("path", path), zap.Error(err))
}

// enter puts an attempt into the index.
func (b *bundles) enter(m Meta) error {
	dir := filepath.Join(b.dir, auditsDir, m.AttemptID)
	size, err := folderSize(dir)
	e := entryOf(m, size)
	if info, err := os.Stat(filepath.Join(dir, metaFile)); err == nil {
		e.written = info.ModTime()
	}
	b.index[m.AttemptID], b.dirty = e, true
	return err
}

// removing is in front of the name of a folder that is being removed: a crash in between leaves no half a bundle.
const removing = ".removing-"

// abandoned is how old a folder without a readable meta.json must be before it counts as left over.
const abandoned = time.Hour

// load makes the index from what is there.
func (b *bundles) load() error {
	root := filepath.Join(b.dir, auditsDir)
	entries, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var faults []error
	b.index = map[string]IndexEntry{}
	for _, e := range entries {
		path := filepath.Join(root, e.Name())
		if strings.HasPrefix(e.Name(), removing) {
			faults = append(faults, os.RemoveAll(path))
			continue
		}
		if !e.IsDir() || !attemptID.MatchString(e.Name()) {
			continue
		}
		var m Meta
		err := readJSON(filepath.Join(path, metaFile), &m)
		if err == nil && m.AttemptID == e.Name() {
			faults = append(faults, b.enter(m))
			continue
		}
		if info, err := e.Info(); err == nil && b.o.Now().Sub(info.ModTime()) > abandoned {
			faults = append(faults, b.remove(e.Name()))
		}
	}
	b.dirty = true
	return errors.Join(faults...)
}

// settle removes what is too much, and writes the index if it changed.
func (b *bundles) settle() (path string, err error) {
	if !b.dirty {
		return "", nil
	}
	path = filepath.Join(b.dir, auditsDir, indexFile)
	list := slices.SortedFunc(maps.Values(b.index), byAge)
	var faults []error
	list, gone := b.o.Keep.divide(list, b.o.Now())
	for _, e := range gone {
		if err := b.remove(e.AttemptID); err != nil {
			faults = append(faults, err)
			list = append(list, e)
			continue
		}
		delete(b.index, e.AttemptID)
	}
	if len(list) == 0 && len(gone) == 0 {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) { // nothing yet, nothing to say
			b.dirty = false
			return "", nil
		}
	}
	slices.SortFunc(list, byAge)
	index := Index{SchemaVersion: IndexSchema, UpdatedAt: wire.At(b.o.Now()), Attempts: list}
	if index.Attempts == nil {
		index.Attempts = []IndexEntry{}
	}
	err = b.disk.replaceJSON(path, index)
	b.dirty = err != nil
	return path, errors.Join(append(faults, err)...)
}

func (b *bundles) remove(id string) error {
	from := filepath.Join(b.dir, auditsDir, id)
	to := filepath.Join(b.dir, auditsDir, removing+id)
	if err := os.Rename(from, to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(to)
}

// divide says which attempts stay. What runs stays whatever the number and the bytes, unless it is too old: then nobody
// will end it any more. The list is sorted by age.
func (k Keep) divide(list []IndexEntry, now time.Time) (stay, gone []IndexEntry) {
	number, size := len(list), int64(0)
	for _, e := range list {
		size += e.Bytes
	}
	for _, e := range list {
		old := k.Age > 0 && now.Sub(e.at()) > k.Age
		much := k.Attempts > 0 && number > k.Attempts || k.Bytes > 0 && size > k.Bytes
		if old || much && e.Outcome != OutcomeRunning {
			number, size, gone = number-1, size-e.Bytes, append(gone, e)
			continue
		}
		stay = append(stay, e)
	}
	return stay, gone
}

func byAge(a, b IndexEntry) int {
	return cmp.Or(a.at().Compare(b.at()), cmp.Compare(a.AttemptID, b.AttemptID))
}

func folderSize(dir string) (size int64, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
	}
	return size, err
}
