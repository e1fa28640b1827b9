package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Options of a writer. The zero value of each field but Log and Redact is a default.
type Options struct {
	Log       *zap.Logger
	Redact    func(string) string // masks secrets in everything that is written
	MaxEvents int64               // bytes of events.jsonl before it is rotated; 10 MiB
	MaxLine   int                 // bytes of a line in it; 65,536, at least 1,024
	MaxText   int                 // bytes of one log or patch; 1 MiB
	Keep      Keep
	Queue     int              // writes that may wait, and as many telemetry lines; 4,096
	Now       func() time.Time // time.Now
}

// Keep bounds what stays on disk. Zero: the default; negative: no bound, no rotated files for EventFiles.
type Keep struct {
	Attempts   int           // bundles; 500
	Age        time.Duration // of bundles, and of the state of tasks that are over; 30 days
	Bytes      int64         // of all bundles together; 1 GiB
	EventFiles int           // rotated files beside events.jsonl; 5
}

// queueBytes bounds the texts that wait to be written.
const queueBytes = 64 << 20

// Counts says how well writing goes.
type Counts struct {
	Written     uint64 // files, and batches of lines
	Dropped     uint64 // did not fit into the queue
	WriteErrors uint64
	LastError   string
}

// Writer writes in the background. Its methods return at once, are safe for concurrent use, and may be called after Close
// (to no effect); a nil Writer writes nothing.
type Writer struct {
	dir  string
	o    Options
	disk disk

	mu      sync.Mutex
	jobs    []job
	events  []Event
	bytes   int
	closed  bool
	counts  Counts
	told    uint64    // dropped, as the log was last told
	toldAt  time.Time // when it was
	wake    chan struct{}
	done    chan struct{}
	abandon chan struct{}

	// Of the one goroutine.
	trouble *trouble
	bundles *bundles
	tidied  time.Time

	stateMu sync.Mutex           // the state folder, against TakeEdit and Edits
	checked map[string]time.Time // stats.json by path: its time of change when it was last read and held no edit
}

// job is one write.
type job struct {
	what string // events, audits, state, report
	cost int
	run  func() (path string, err error)
}

// Open returns a writer for dir, and begins to look at what is there.
func Open(dir string, o Options) *Writer { return open(dir, o, realDisk) }

func open(dir string, o Options, d disk) *Writer {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Redact == nil {
		o.Redact = func(s string) string { return s }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.MaxEvents = or(o.MaxEvents, 10<<20)
	o.MaxLine = max(or(o.MaxLine, 64<<10), 1<<10)
	o.MaxText = or(o.MaxText, 1<<20)
	o.Queue = or(o.Queue, 4096)
	o.Keep = Keep{
		Attempts: or(o.Keep.Attempts, 500), Age: or(o.Keep.Age, 30*24*time.Hour),
		Bytes: or(o.Keep.Bytes, 1<<30), EventFiles: or(o.Keep.EventFiles, 5),
	}
	w := &Writer{
		dir: dir, o: o, disk: d,
		wake: make(chan struct{}, 1), done: make(chan struct{}), abandon: make(chan struct{}),
		trouble: newTrouble(o.Log, o.Now), checked: map[string]time.Time{},
	}
	w.bundles = newBundles(dir, o, d)
	go w.loop()
	return w
}

func or[T int | int64 | time.Duration](v, otherwise T) T {
	if v == 0 {
		return otherwise
	}
	return v
}

// Close waits until what is queued is written, but no longer than ctx; the rest is lost, and the error says how much.
func (w *Writer) Close(ctx context.Context) error {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	first := !w.closed
	w.closed = true
	w.mu.Unlock()
	w.ring()
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-w.done: // both
		return nil
	default:
	}
	w.mu.Lock()
	left := len(w.jobs) + len(w.events)
	w.mu.Unlock()
	if first {
		close(w.abandon) // the write under way ends as soon as the disk lets it
	}
	return fmt.Errorf("audit: %d writes were still waiting: %w", left, context.Cause(ctx))
}

// Counts returns how well writing goes so far.
func (w *Writer) Counts() Counts {
	if w == nil {
		return Counts{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts
}

// put queues a write, or drops it.
func (w *Writer) put(what string, cost int, run func() (string, error)) {
	if w == nil {
		return
	}
	w.mu.Lock()
	switch {
	case w.closed:
	case len(w.jobs) >= w.o.Queue || w.bytes+cost > queueBytes:
		w.counts.Dropped++
	default:
		w.jobs, w.bytes = append(w.jobs, job{what, cost, run}), w.bytes+cost
	}
	w.mu.Unlock()
	w.ring()
}

// Event queues one line of telemetry, or drops it. Its payload must not be changed afterwards.
func (w *Writer) Event(e Event) {
	if w == nil {
		return
	}
	w.mu.Lock()
	switch {
	case w.closed:
	case len(w.events) >= w.o.Queue:
		w.counts.Dropped++
	default:
		w.events = append(w.events, e)
	}
	w.mu.Unlock()
	w.ring()
}

// Classified queues the line for a classification that led to a retry or was shown to a person.
func (w *Writer) Classified(c Classified) { w.Event(c.event()) }

func (w *Writer) ring() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// loop is the one goroutine that writes.
func (w *Writer) loop() {
	defer close(w.done)
	w.do(job{what: auditsDir, run: w.tidy})
	for {
		jobs, events, closed := w.take()
		if len(jobs)+len(events) == 0 {
			if closed {
				return
			}
			select {
			case <-w.wake:
			case <-w.abandon:
				return
			}
			continue
		}
		if len(events) > 0 {
			w.do(job{what: "events", run: func() (string, error) { return w.writeEvents(events) }})
		}
		for _, j := range jobs {
			select {
			case <-w.abandon:
				return
			default:
			}
			w.do(j)
		}
		w.do(job{what: auditsDir, run: w.bundles.settle})
		if w.o.Now().Sub(w.tidied) > tidyEvery {
			w.do(job{what: auditsDir, run: w.tidy})
		}
	}
}

// tidyEvery is how often what is too old is looked for.
const tidyEvery = 24 * time.Hour

// do carries out a write. What a value or the redactor brings along must not end the director.
func (w *Writer) do(j job) {
	path, err := "", error(nil)
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("audit: writing panicked: %v", r)
		}
		w.note(j.what, path, err)
	}()
	path, err = j.run()
}

// tidy removes what a crash left and what is too old, and makes the index.
func (w *Writer) tidy() (path string, err error) {
	faults := []error{w.bundles.load(), w.pruneState()}
	for _, dir := range []string{auditsDir, stateDir, outputsDir} {
		faults = append(faults, sweep(filepath.Join(w.dir, dir), dir == stateDir)) // a command may be resetting a budget
	}
	unfinished, _ := filepath.Glob(filepath.Join(w.dir, ReportFile+tempMark+"*")) // the pattern is right
	for _, path := range unfinished {
		if info, err := os.Stat(path); err == nil && w.o.Now().Sub(info.ModTime()) > abandoned { // a younger one may be a command's
			faults = append(faults, os.Remove(path))
		}
	}
	old, err := filepath.Glob(filepath.Join(w.dir, eventsFile) + ".*")
	for _, path := range old {
		n, err := strconv.Atoi(strings.TrimPrefix(filepath.Ext(path), "."))
		if err == nil && n > max(w.o.Keep.EventFiles, 0) {
			faults = append(faults, os.Remove(path))
		}
	}
	w.tidied = w.o.Now()
	return w.dir, errors.Join(append(faults, err)...)
}

// take empties the queue.
func (w *Writer) take() (jobs []job, events []Event, closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	jobs, events, closed = w.jobs, w.events, w.closed
	w.jobs, w.events, w.bytes = nil, nil, 0
	if lost := w.counts.Dropped - w.told; lost > 0 && (closed || w.o.Now().Sub(w.toldAt) >= quiet) {
		w.told, w.toldAt = w.counts.Dropped, w.o.Now()
		w.o.Log.Warn("audit writes were dropped: more came than the disk takes", zap.Uint64("dropped", lost))
	}
	return jobs, events, closed
}

func (w *Writer) writeEvents(events []Event) (path string, err error) {
	t := telemetry{disk: w.disk, path: filepath.Join(w.dir, eventsFile), max: w.o.MaxEvents, files: w.o.Keep.EventFiles}
	lines := make([][]byte, 0, len(events))
	var faults []error
	for _, e := range events {
		line, err := cleaned(e, w.o.Redact).line(w.o.MaxLine)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		lines = append(lines, line)
	}
	return t.path, errors.Join(append(faults, t.add(lines))...)
}

// note counts the outcome of a write.
func (w *Writer) note(what, path string, err error) {
	if path == "" && err == nil {
		return // there was nothing to do
	}
	w.trouble.ended(what, path, err)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.counts.Written++
		return
	}
	w.counts.WriteErrors, w.counts.LastError = w.trouble.errors, err.Error()
}
