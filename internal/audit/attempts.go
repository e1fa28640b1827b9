package audit

import (
	"bytes"
	"cmp"
	"encoding/json"
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
	"retake/internal/safefile"
)

// Attempt queues an update of an attempt's meta.json and summary. The Writer's goroutine calls change with the current
// content of meta.json. A new attempt starts with OutcomeRunning.
func (w *Writer) Attempt(id string, change func(*Meta)) {
	w.put(auditsDir, 0, func() (string, error) { return w.attempts.update(id, change) })
}

// Transition adds a line to the attempt's transitions.jsonl.
func (w *Writer) Transition(t Transition) {
	w.put(auditsDir, 0, func() (string, error) { return w.attempts.transition(t) })
}

// Output stores an attempt's logs and patch. An empty text does not replace an existing file.
func (w *Writer) Output(id string, o Output) {
	cost := len(o.WorkerLog) + len(o.BuildLog) + len(o.TestLog) + len(o.Patch)
	w.put(auditsDir, cost, func() (string, error) { return w.attempts.output(id, o) })
}

// attempts manages the attempts' directories and their index. It is not safe for concurrent use.
type attempts struct {
	dir   string // data directory, the parent of audits
	o     Options
	disk  disk
	index map[string]IndexEntry
	dirty bool // the index on disk is out of date
}

func newAttempts(dir string, o Options, d disk) *attempts {
	return &attempts{dir: dir, o: o, disk: d, index: map[string]IndexEntry{}}
}

// update writes the summaries first and meta.json last. If meta.json shows that an attempt has ended, its files are
// therefore complete.
func (a *attempts) update(id string, change func(*Meta)) (path string, err error) {
	dir, err := attemptFolder(a.dir, id)
	if err != nil {
		return id, err
	}
	path = filepath.Join(dir, metaFile)
	m := Meta{Outcome: OutcomeRunning}
	if err := readJSON(path, &m); err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.o.Log.Warn("could not read audit file; rewriting it", zap.String("path", path), zap.Error(err))
	}
	change(&m)
	if m, err = cleaned(m, a.o.Redact); err != nil {
		return path, err
	}
	m.SchemaVersion, m.AttemptID = metaSchema, id
	summary := []byte(a.o.Redact(Summary(m, readOutput(dir), readTransitions(dir))))
	if err := a.disk.replace(filepath.Join(dir, summaryFile), summary); err != nil {
		return path, err
	}
	if folder, err := TaskFolder(m.Issue); err == nil { // the task's next attempt reads this copy
		if err := a.disk.replace(filepath.Join(a.dir, outputsDir, folder, taskSummaryFile), summary); err != nil {
			return path, err
		}
	}
	if err := a.disk.replaceJSON(path, m); err != nil {
		return path, err
	}
	return path, a.enter(m)
}

// maxTransitions is the maximum size of transitions.jsonl, in bytes. That is enough even for a worker whose heartbeats
// stop and resume all day.
const maxTransitions = 1 << 20

func (a *attempts) transition(t Transition) (path string, err error) {
	dir, err := attemptFolder(a.dir, t.AttemptID)
	if err != nil {
		return t.AttemptID, err
	}
	path = filepath.Join(dir, transitionsFile)
	if size, err := sizeOf(path); err != nil || size > maxTransitions {
		return path, err
	}
	t, err = cleaned(t, a.o.Redact)
	line, encoding := json.Marshal(t)
	if err = errors.Join(err, encoding); err != nil {
		return path, err
	}
	return path, a.disk.add(path, append(line, '\n'))
}

func (a *attempts) output(id string, o Output) (path string, err error) {
	dir, err := attemptFolder(a.dir, id)
	if err != nil {
		return id, err
	}
	for _, text := range []struct{ name, text string }{
		{workerLog, a.tail(o.WorkerLog)},
		{buildLog, a.tail(o.BuildLog)},
		{testLog, a.tail(o.TestLog)},
		{patchFile, a.head(o.Patch)},
	} {
		path = filepath.Join(dir, text.name)
		if text.text == "" && exists(path) {
			continue
		}
		if err := a.disk.replace(path, []byte(text.text)); err != nil {
			return path, err
		}
	}
	return path, nil
}

// tail masks a log and cuts it to its last MaxText bytes. To limit the work, it first cuts a long log to twice this
// size. It then drops the first line, because the line may begin with the tail of a secret, which the redactor cannot
// recognize.
func (a *attempts) tail(text string) string {
	if most := 2 * a.o.MaxText; len(text) > most {
		text = wire.CutTail(text, most)
		if _, rest, ok := strings.Cut(text, "\n"); ok {
			text = rest
		}
	}
	return wire.CutTail(a.o.Redact(text), a.o.MaxText)
}

// head masks a patch and cuts it to at most MaxText bytes of whole lines. It keeps the beginning, because the rest of a
// patch is useless without it.
func (a *attempts) head(text string) string {
	const mark = "# cut here: the patch exceeds the limit\n"
	cut := false
	if most := 2 * a.o.MaxText; len(text) > most {
		text, cut = strings.ToValidUTF8(text[:most], ""), true
	}
	text = a.o.Redact(text)
	if most := a.o.MaxText - len(mark); len(text) > most {
		text, cut = strings.ToValidUTF8(text[:max(most, 0)], ""), true
	}
	if cut {
		text = text[:strings.LastIndexByte(text, '\n')+1] + mark
	}
	return text
}

// readOutput returns the readable files of an attempt.
func readOutput(dir string) Output {
	read := func(name string) string {
		data, _ := readFile(filepath.Join(dir, name))
		return string(data)
	}
	return Output{WorkerLog: read(workerLog), BuildLog: read(buildLog), TestLog: read(testLog), Patch: read(patchFile)}
}

// readTransitions returns the readable transitions.
func readTransitions(dir string) (out []Transition) {
	data, _ := readFile(filepath.Join(dir, transitionsFile))
	for line := range bytes.Lines(data) {
		var t Transition
		if json.Unmarshal(line, &t) == nil {
			out = append(out, t)
		}
	}
	return out
}

// IndexEntry is one attempt in audits/index.json.
type IndexEntry struct {
	AttemptID string    `json:"attempt_id"`
	Issue     string    `json:"issue"`
	Title     string    `json:"title"`
	Attempt   int       `json:"attempt"`
	Outcome   string    `json:"outcome"`
	Stage     string    `json:"stage,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	Action    string    `json:"action,omitempty"` // the verdict
	Signature string    `json:"signature,omitempty"`
	StartedAt wire.Time `json:"started_at,omitzero"`
	EndedAt   wire.Time `json:"ended_at,omitzero"`
	Bytes     int64     `json:"bytes"`

	written time.Time // modification time of meta.json, for attempts without a recorded time
}

// Index is audits/index.json: the attempts, oldest first.
type Index struct {
	SchemaVersion string       `json:"schema_version"`
	UpdatedAt     wire.Time    `json:"updated_at"`
	Attempts      []IndexEntry `json:"attempts"`
}

func (e IndexEntry) at() time.Time {
	return cmp.Or(e.EndedAt.Time, e.StartedAt.Time, e.written)
}

func byAge(a, b IndexEntry) int {
	return cmp.Or(a.at().Compare(b.at()), cmp.Compare(a.AttemptID, b.AttemptID))
}

func entryOf(m Meta) IndexEntry {
	e := IndexEntry{
		AttemptID: m.AttemptID, Issue: m.Issue, Title: m.Title, Attempt: m.Attempt, Outcome: m.Outcome, Stage: m.Stage,
		StartedAt: m.StartedAt, EndedAt: m.EndedAt,
	}
	if f := m.Failure; f != nil {
		e.Reason, e.Action, e.Signature = f.Reason, f.Action, f.Signature
	}
	return e
}

// enter adds an attempt to the index.
func (a *attempts) enter(m Meta) error {
	files, err := os.ReadDir(filepath.Join(a.dir, auditsDir, m.AttemptID))
	e := entryOf(m)
	for _, f := range files {
		if info, err := f.Info(); err == nil && info.Mode().IsRegular() {
			e.Bytes += info.Size()
			e.written = info.ModTime()
		}
	}
	a.index[m.AttemptID], a.dirty = e, true
	return err
}

// removing is the prefix of directories that are being removed, so that after a crash every directory with a regular
// name is complete.
const removing = ".removing-"

// abandoned is the age at which a directory without a readable meta.json is removed.
const abandoned = time.Hour

// load builds the index from the files on disk.
func (a *attempts) load() error {
	root := filepath.Join(a.dir, auditsDir)
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	faults := []error{err}
	clear(a.index)
	for _, e := range entries {
		path := filepath.Join(root, e.Name())
		if strings.HasPrefix(e.Name(), removing) {
			faults = append(faults, os.RemoveAll(path))
			continue
		}
		var m Meta
		switch info, err := e.Info(); {
		case err != nil || !e.IsDir() || !attemptID.MatchString(e.Name()):
		case readJSON(filepath.Join(path, metaFile), &m) == nil && m.AttemptID == e.Name():
			faults = append(faults, a.enter(m))
		case a.o.Now().Sub(info.ModTime()) > abandoned:
			faults = append(faults, a.remove(e.Name()))
		}
	}
	a.dirty = true
	return errors.Join(faults...)
}

// settle enforces the limits, and writes the index if it has changed.
func (a *attempts) settle() (path string, err error) {
	if !a.dirty {
		return "", nil
	}
	path = filepath.Join(a.dir, auditsDir, indexFile)
	var faults []error
	for _, id := range a.o.Keep.surplus(slices.SortedFunc(maps.Values(a.index), byAge), a.o.Now()) {
		if err := a.remove(id); err != nil {
			faults = append(faults, err)
			continue
		}
		delete(a.index, id)
	}
	list := slices.AppendSeq([]IndexEntry{}, maps.Values(a.index))
	slices.SortFunc(list, byAge)
	err = a.disk.replaceJSON(path, Index{SchemaVersion: indexSchema, UpdatedAt: wire.At(a.o.Now()), Attempts: list})
	a.dirty = err != nil
	return path, errors.Join(append(faults, err)...)
}

func (a *attempts) remove(id string) error {
	from, to := filepath.Join(a.dir, auditsDir, id), filepath.Join(a.dir, auditsDir, removing+id)
	if err := safefile.Rename(from, to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(to)
}

// surplus returns the ids of the attempts to remove. The list must be sorted by age, oldest first. A running attempt is
// removed only if it exceeds the maximum age.
func (k Keep) surplus(list []IndexEntry, now time.Time) (gone []string) {
	number, size := len(list), int64(0)
	for _, e := range list {
		size += e.Bytes
	}
	for _, e := range list {
		old := k.Age > 0 && now.Sub(e.at()) > k.Age
		much := k.Attempts > 0 && number > k.Attempts || k.Bytes > 0 && size > k.Bytes
		if old || much && e.Outcome != OutcomeRunning {
			number, size, gone = number-1, size-e.Bytes, append(gone, e.AttemptID)
		}
	}
	return gone
}
