package output

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"retake/internal/bus/wire"
	"retake/internal/safefile"
	"retake/internal/secrets/redact"
)

const (
	// flushEvery is the maximum delay before followers get a line. It also limits the rate of notifications.
	flushEvery = 100 * time.Millisecond
	// againAfter is the pause before reading an interrupted source again.
	againAfter = time.Second
	// longLine is the length at which lines are split.
	longLine = 8 << 10
	// backlogBytes is the maximum size of the queue of rate-limited pieces. A full queue drops its oldest pieces,
	// because the end of a log explains a failure.
	backlogBytes = 64 << 10
)

// recording records one attempt.
type recording struct {
	Recording
	store  *Store
	folder string
	ctx    context.Context
	cancel context.CancelFunc
	gaveUp atomic.Bool   // the source did not finish in time; the output so far is final
	done   chan struct{} // closed when the recording has ended

	mu      sync.Mutex
	began   time.Time
	started bool // the files contain output from the current read of the source
	streams [2]stream
	limit   *rate.Limiter
	waiting []piece // pieces delayed by the rate limit
	bytes   int     // size of waiting
	dropped int64   // bytes dropped since the last written line
	lost    bool    // some output is missing

	file    *os.File // nil before the first write, or if the file is not writable
	to      *bufio.Writer
	size    int64
	n       int64 // number of the last line
	dirty   bool
	changed chan struct{} // closed and replaced when there is more to read
	gen     int           // incremented when readers must reopen the files; starts at 1
}

// stream is stdout or stderr of an attempt.
type stream struct {
	name  string
	part  []byte // incomplete last line
	mid   bool   // the beginning of the line was already written
	gap   bool   // bytes were dropped since the last piece
	at    time.Time
	stage string
	mark  wire.StageMark // the last mark
	rune  []byte         // first bytes of a character that is still incomplete
	lines *redact.Writer // hides secrets, including secrets in split lines
	now   piece          // the piece that is being written
}

// piece is a line, or a part of a long line.
type piece struct {
	at     time.Time
	stream int
	stage  string
	text   []byte
	begins bool // the piece begins a line
}

// row is a line in a file.
type row struct {
	N            int64     `json:"n"` // number of the line in the attempt, from 1
	At           wire.Time `json:"at"`
	Stage        string    `json:"stage,omitempty"`
	Stream       string    `json:"stream,omitempty"`
	Text         string    `json:"text"`
	SkippedBytes int64     `json:"skipped_bytes,omitempty"`
}

// header is the first line of a file.
type header struct {
	Schema string `json:"schema_version"`
	Attempt
	Truncated bool `json:"truncated,omitempty"` // more is missing than the gaps in the numbers show
}

const schema = "retake-output/v1"

func newRecording(s *Store, folder string, r Recording) *recording {
	if r.Mask == nil {
		r.Mask = func(text string) string { return text }
	}
	ctx, cancel := context.WithCancel(s.ctx)
	return &recording{
		Recording: r, store: s, ctx: ctx, cancel: cancel, folder: folder, began: s.o.Now(), done: make(chan struct{}),
		changed: make(chan struct{}),
		limit:   rate.NewLimiter(rate.Limit(s.o.Keep.PerSecond), s.o.Keep.Burst),
	}
}

func (r *recording) attempt() Attempt {
	return Attempt{Issue: r.Issue, ID: r.ID, N: r.N, Began: wire.At(r.began), Live: true}
}

func (r *recording) path(suffix string) string {
	return filepath.Join(r.store.dir, folderName, r.folder, r.ID+suffix)
}

// run records until the attempt ends or the store closes.
func (r *recording) run() {
	defer close(r.done)
	ctx := r.ctx
	defer r.cancel()
	r.mu.Lock()
	if h, err := readHeader(r.path(partSuffix)); err == nil && h.ID == r.ID { // written by an earlier process
		r.began = h.Began.Time
	}
	r.mu.Unlock()
	var ticks sync.WaitGroup
	ticks.Go(func() {
		tick := time.NewTicker(flushEvery)
		defer tick.Stop()
		for ctx.Err() == nil {
			select {
			case <-tick.C:
				r.tick()
			case <-ctx.Done():
			}
		}
	})
	ended := r.follow(ctx)
	r.cancel()
	ticks.Wait()
	r.finish(ended)
}

// follow reads the source until it ends. If the source is interrupted, it reads again from the beginning.
func (r *recording) follow(ctx context.Context) (ended bool) {
	for warned := false; ; {
		err := r.Source(ctx, r.take)
		switch {
		case err == nil:
			return true
		case ctx.Err() != nil:
			return false
		case !warned:
			warned = true
			r.store.log.Warn("could not read attempt output; retrying", zap.String("issue", r.Issue),
				zap.String("worker", r.ID), zap.Error(err))
		}
		select {
		case <-time.After(againAfter):
		case <-ctx.Done():
			return false
		}
		r.mu.Lock()
		r.started = false
		r.mu.Unlock()
	}
}

// giveUp ends the recording before its source has ended. It does not wait, because the disk might hang.
func (r *recording) giveUp() {
	r.gaveUp.Store(true)
	r.cancel()
}

// finish writes the remaining output. If the attempt has ended, it also creates the finished file.
func (r *recording) finish(ended bool) {
	r.mu.Lock()
	if _, err := os.Stat(r.path(partSuffix)); !r.started && err != nil {
		r.begin() // the attempt printed nothing
	}
	r.catchUp(true)
	for i := range r.streams {
		if s := &r.streams[i]; s.lines != nil {
			if len(s.part) > 0 {
				r.push(piece{s.at, i, s.stage, s.part, !s.mid})
				r.catchUp(true)
			}
			s.lines.Flush()
			if len(s.rune) > 0 {
				_, _ = sink{r, s}.Write([]byte("\n"))
			}
		}
	}
	r.closeFile()
	gaveUp := r.gaveUp.Load() && !ended
	seals, lost := ended || gaveUp, r.lost || gaveUp
	r.mu.Unlock()
	if seals {
		err := seal(filepath.Dir(r.path("")), r.ID, lost)
		if errors.Is(err, os.ErrNotExist) { // the audit's writer occasionally removes unfinished files
			err = seal(filepath.Dir(r.path("")), r.ID, lost)
		}
		if err != nil {
			r.fail(err)
		}
	}
	r.store.mu.Lock()
	delete(r.store.live, r.ID)
	r.store.taskOf(r.folder).notify()
	r.store.mu.Unlock()
	r.mu.Lock()
	r.notify()
	r.mu.Unlock()
	if seals {
		r.store.prune()
	}
}

// begin creates or truncates the attempt's file.
func (r *recording) begin() {
	r.closeFile()
	r.started, r.n, r.waiting, r.bytes, r.dropped = true, 0, nil, 0, 0
	for i, name := range []string{wire.StreamStdout, wire.StreamStderr} {
		s := &r.streams[i]
		*s = stream{name: name}
		s.lines = r.Secrets.NewWriter(sink{r, s})
	}
	err := safefile.MkdirAll(filepath.Dir(r.path("")), 0o700)
	if err == nil {
		if err = os.Remove(r.path(olderSuffix)); errors.Is(err, os.ErrNotExist) {
			err = nil
		}
	}
	if err == nil {
		err = r.openFile()
	}
	if err != nil {
		r.fail(err)
	}
}

// openFile starts a new part.
func (r *recording) openFile() error {
	f, err := os.OpenFile(r.path(partSuffix), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	r.file, r.to, r.size = f, bufio.NewWriterSize(f, 64<<10), 0
	r.gen++
	return r.add(header{Schema: schema, Attempt: r.attempt()})
}

func (r *recording) closeFile() {
	if r.file == nil {
		return
	}
	if err := errors.Join(r.to.Flush(), r.file.Close()); err != nil {
		r.lost = true
	}
	r.file = nil
}

// fail records and logs that lines are lost. The attempt continues.
func (r *recording) fail(err error) {
	r.lost = true
	r.store.log.Warn("could not write output; the attempt continues", zap.String("issue", r.Issue),
		zap.String("worker", r.ID), zap.Error(err))
}

// add writes v as a line of JSON.
func (r *recording) add(v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	n, err := r.to.Write(b.Bytes())
	r.size += int64(n)
	r.dirty = true
	return err
}

// tick flushes to followers and processes the backlog.
func (r *recording) tick() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.catchUp(false)
	r.show()
}

// show makes all added lines visible to readers.
func (r *recording) show() {
	if !r.dirty || r.file == nil {
		return
	}
	r.dirty = false
	if err := r.to.Flush(); err != nil {
		_ = r.file.Close()
		r.file = nil
		r.fail(err)
	}
	r.notify()
}

func (r *recording) notify() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// enter appends a line. It starts a new file when the current one is full, and keeps one full file.
func (r *recording) enter(l row) {
	if r.file == nil {
		r.lost = true
		return
	}
	r.n++
	l.N = r.n
	err := r.add(l)
	if err == nil && r.size > r.store.o.Keep.PartBytes {
		if err = errors.Join(r.to.Flush(), r.file.Close(),
			safefile.Rename(r.path(partSuffix), r.path(olderSuffix))); err == nil {
			err = r.openFile()
		}
	}
	if err != nil {
		_ = r.file.Close()
		r.file = nil
		r.fail(err)
	}
}
