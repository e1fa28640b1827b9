package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"retake/internal/safefile"
	"retake/internal/sys/diskfault"
)

// Options configure a writer. Except for Log and Redact, the zero value of a field means its default.
type Options struct {
	Log       *zap.Logger
	Redact    func(string) string // masks secrets in all written text
	MaxEvents int64               // size at which events.jsonl is rotated, in bytes; default 10 MiB
	MaxLine   int                 // maximum line length in events.jsonl, in bytes, at least 1,024; default 65,536
	MaxText   int                 // maximum size of one log or patch, in bytes; default 1 MiB
	Keep      Keep
	Queue     int              // maximum number of queued writes; default 4,096
	Now       func() time.Time // default time.Now
}

// Keep limits the data on disk. Zero means the default, and a negative number means unlimited. For EventFiles, a
// negative number disables rotated files.
type Keep struct {
	Attempts   int           // maximum number of bundles; default 500
	Age        time.Duration // maximum age of bundles, and of the state of finished tasks; default 30 days
	Bytes      int64         // maximum size of all bundles together; default 1 GiB
	EventFiles int           // maximum number of rotated files, not counting events.jsonl; default 5
}

// queueBytes limits the size of the texts in the queue.
const queueBytes = 64 << 20

// Counts counts the outcomes of writes.
type Counts struct {
	Written     uint64 // written files, and appended batches of lines
	Dropped     uint64 // writes that did not fit into the queue
	WriteErrors uint64
	LastError   string
}

// Writer writes in the background. Its methods return at once and are safe for concurrent use. After Close, they have
// no effect.
type Writer struct {
	dir  string
	o    Options
	disk disk

	jobs    chan job
	bytes   atomic.Int64  // size of the queued texts
	closing chan struct{} // closed by Close; the queue is still written
	abandon chan struct{} // closed when Close has waited long enough
	done    chan struct{}
	close   sync.Once

	mu     sync.Mutex
	counts Counts

	// Only the writing goroutine uses these fields.
	errors   *writeErrors
	attempts *attempts
	tidied   time.Time
	warned   uint64 // number of dropped writes at the last warning
}

// job is one write.
type job struct {
	what string // the type of file: eventsFile, auditsDir or stateDir
	cost int
	run  func() (path string, err error)
}

// Open returns a writer for dir, and starts to index the existing files.
func Open(dir string, o Options) *Writer { return open(dir, o, realDisk) }

func open(dir string, o Options, d disk) *Writer {
	o.Log = cmp.Or(o.Log, zap.NewNop())
	if o.Redact == nil {
		o.Redact = func(s string) string { return s }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.MaxEvents = cmp.Or(o.MaxEvents, 10<<20)
	o.MaxLine = max(cmp.Or(o.MaxLine, 64<<10), 1<<10)
	o.MaxText = cmp.Or(o.MaxText, 1<<20)
	o.Queue = cmp.Or(o.Queue, 4096)
	o.Keep = Keep{
		Attempts: cmp.Or(o.Keep.Attempts, 500), Age: cmp.Or(o.Keep.Age, 30*24*time.Hour),
		Bytes: cmp.Or(o.Keep.Bytes, 1<<30), EventFiles: cmp.Or(o.Keep.EventFiles, 5),
	}
	w := &Writer{
		dir: dir, o: o, disk: d, jobs: make(chan job, o.Queue),
		closing: make(chan struct{}), abandon: make(chan struct{}), done: make(chan struct{}),
		errors: newWriteErrors(o.Log), attempts: newAttempts(dir, o, d),
	}
	go w.loop()
	return w
}

// Close waits until the queue is written or ctx is done. Its error gives the number of lost writes.
func (w *Writer) Close(ctx context.Context) error {
	first := false
	w.close.Do(func() { first = true; close(w.closing) })
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-w.done: // both channels were ready
		return nil
	default:
	}
	left := len(w.jobs)
	if first {
		close(w.abandon) // this ends the current write when the disk responds
	}
	return fmt.Errorf("audit: %d writes still queued: %w", left, context.Cause(ctx))
}

// Counts returns the outcomes of writes so far.
func (w *Writer) Counts() Counts {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts
}

// put queues a write, or drops it.
func (w *Writer) put(what string, cost int, run func() (string, error)) {
	select {
	case <-w.closing:
		return
	default:
	}
	if w.bytes.Add(int64(cost)) <= queueBytes {
		select {
		case w.jobs <- job{what, cost, run}:
			return
		default:
		}
	}
	w.bytes.Add(-int64(cost))
	w.mu.Lock()
	w.counts.Dropped++
	w.mu.Unlock()
}

// loop is the writing goroutine. It writes the index when the queue is empty.
func (w *Writer) loop() {
	defer close(w.done)
	w.do(job{what: auditsDir, run: w.tidy})
	for {
		select {
		case <-w.abandon:
			return
		default:
		}
		select {
		case j := <-w.jobs:
			w.do(j)
			continue
		default:
		}
		w.do(job{what: auditsDir, run: w.attempts.settle})
		w.logDropped()
		select {
		case j := <-w.jobs:
			w.do(j)
		case <-w.abandon:
		case <-w.closing:
			if len(w.jobs) == 0 {
				return
			}
		}
		if w.o.Now().Sub(w.tidied) > tidyEvery {
			w.do(job{what: auditsDir, run: w.tidy})
		}
	}
}

// logDropped logs how many writes were dropped.
func (w *Writer) logDropped() {
	if dropped := w.Counts().Dropped; dropped > w.warned {
		w.warned = dropped
		w.errors.log.Warn("dropped audit writes because the disk is too slow", zap.Uint64("dropped", dropped))
	}
}

// tidyEvery is the interval between searches for expired files.
const tidyEvery = 24 * time.Hour

// do carries out a write. A panic in a value or in the redactor must not stop the director.
func (w *Writer) do(j job) {
	w.bytes.Add(-int64(j.cost))
	path, err := "", error(nil)
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("audit: write panicked: %v", r)
		}
		w.note(j.what, path, err)
	}()
	path, err = j.run()
}

// tidy removes expired files, and incomplete files left by a crash. It also builds the index.
func (w *Writer) tidy() (path string, err error) {
	w.tidied = w.o.Now()
	faults := []error{w.attempts.load(), w.pruneState()}
	for _, dir := range []string{auditsDir, stateDir, outputsDir} {
		faults = append(faults, sweep(filepath.Join(w.dir, dir)))
	}
	unfinished, _ := filepath.Glob(filepath.Join(w.dir, "."+reportFile+safefile.TempMark+"*")) // the pattern is valid
	for _, path := range unfinished {
		// a younger file may belong to a command that is still running
		if info, err := os.Stat(path); err == nil && w.o.Now().Sub(info.ModTime()) > abandoned {
			faults = append(faults, os.Remove(path))
		}
	}
	return w.dir, errors.Join(faults...)
}

// note records the result of a write.
func (w *Writer) note(what, path string, err error) {
	if path == "" && err == nil {
		return // there was nothing to do
	}
	w.errors.ended(what, path, err)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.counts.Written++
		return
	}
	w.counts.WriteErrors++
	w.counts.LastError = err.Error()
}

// anyWrite reports whether an error, such as a full disk, affects all writes rather than a single file.
func anyWrite(err error) bool {
	return diskfault.Of(err) != diskfault.None || errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// writeErrors logs when writes start to fail, and when they succeed again.
type writeErrors struct {
	log  *zap.Logger
	lost map[string]uint64 // number of failed writes since the first failure, by type of file or by path
}

// maxFailing limits the number of entries in writeErrors.lost.
const maxFailing = 256

// newWriteErrors limits the log to a few lines a minute, because on a nearly full disk some writes fail and others
// succeed.
func newWriteErrors(log *zap.Logger) *writeErrors {
	few := zap.WrapCore(func(c zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(c, time.Minute, 4,
			0)
	})
	return &writeErrors{log: log.WithOptions(few), lost: map[string]uint64{}}
}

// ended records the result of one write. See job for the meaning of the argument what.
func (t *writeErrors) ended(what, path string, err error) {
	if err == nil {
		t.recovered(what)
		t.recovered(path)
		return
	}
	key := path
	if anyWrite(err) {
		key = what
	}
	if t.lost[key] == 0 {
		if len(t.lost) >= maxFailing {
			return
		}
		t.log.Error("could not write audit files; continuing without them", zap.String("what", what),
			zap.String("path", path), zap.Error(err))
	}
	t.lost[key]++
}

func (t *writeErrors) recovered(key string) {
	if lost := t.lost[key]; lost > 0 {
		delete(t.lost, key)
		t.log.Info("resumed writing audit files", zap.String("what", key), zap.Uint64("lost", lost))
	}
}
