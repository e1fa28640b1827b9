package output

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"
	"strings"

	"retake/internal/audit"
)

// Lines returns the lines of an issue's output, oldest first. A slow reader does not delay the attempt or other
// readers. Line.Skipped counts the lines that it missed. Iteration stops at an error: ErrNoTask, ErrNoAttempt, a
// context error, or a file error.
func (s *Store) Lines(ctx context.Context, issue string, f Filter) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		folder, err := audit.TaskFolder(issue)
		if err == nil {
			r := &reader{store: s, ctx: ctx, issue: issue, folder: folder, filter: f, yield: yield}
			err = r.read()
		}
		if err != nil && !errors.Is(err, errEnough) {
			yield(Line{}, err)
		}
	}
}

// errEnough stops a read when the consumer is done.
var errEnough = errors.New("output: enough")

// reader is the state of one call to Lines.
type reader struct {
	store  *Store
	ctx    context.Context
	issue  string
	folder string
	filter Filter
	yield  func(Line, error) bool

	seen []string // ids of the attempts read so far
	last []Line   // newest existing lines, until all existing lines are read
	past bool     // set once all existing lines have been read
}

func (r *reader) read() error {
	for {
		open, changed := r.task()
		a, found, err := r.next()
		if err != nil {
			return err
		}
		switch {
		case found:
			r.seen = append(r.seen, a.ID)
			if err := r.attempt(a); err != nil {
				return err
			}
			if err := r.flushLast(); err != nil || r.filter.Attempt != 0 || !r.filter.Follow {
				return err
			}
			continue
		case len(r.seen) == 0 && r.filter.Attempt != 0:
			return fmt.Errorf("%w: %s, attempt %d", ErrNoAttempt, r.issue, r.filter.Attempt)
		case len(r.seen) == 0 && !open:
			return fmt.Errorf("%w: %s", ErrNoTask, r.issue)
		case !r.filter.Follow || !open:
			return nil
		}
		r.past = true
		if err := r.wait(changed); err != nil {
			return err
		}
	}
}

// task reports whether more attempts may follow. changed is closed when an attempt starts or the task ends.
func (r *reader) task() (open bool, changed <-chan struct{}) {
	r.store.mu.Lock()
	defer r.store.mu.Unlock()
	t := r.store.tasks[r.folder]
	if t == nil {
		return false, nil
	}
	return t.open, t.changed
}

// next returns the attempt to read. It begins with the newest attempt, or the one from the filter, and continues with
// its successors.
func (r *reader) next() (a Attempt, found bool, err error) {
	list, err := r.store.Attempts(r.issue)
	if err != nil {
		return a, false, err
	}
	if len(r.seen) > 0 {
		before := slices.IndexFunc(list, func(a Attempt) bool { return a.ID == r.seen[len(r.seen)-1] })
		for _, a := range list[before+1:] {
			if !slices.Contains(r.seen, a.ID) {
				return a, true, nil
			}
		}
		return a, false, nil
	}
	for _, a := range slices.Backward(list) {
		if r.filter.Attempt == 0 || a.N == r.filter.Attempt {
			return a, true, nil
		}
	}
	return a, false, nil
}

// attempt reads the existing output of an attempt. With Filter.Follow it continues until the attempt ends.
func (r *reader) attempt(a Attempt) error {
	c := cursor{reader: r, of: a}
	defer func() { c.close() }()
	for {
		r.store.mu.Lock()
		rec := r.store.live[a.ID]
		r.store.mu.Unlock()
		changed, err := c.readOn(rec)
		if err != nil {
			return err
		}
		if rec == nil || !r.filter.Follow {
			return nil
		}
		if err := r.flushLast(); err != nil {
			return err
		}
		if err := r.wait(changed); err != nil {
			return err
		}
	}
}

// errClosed is returned to followers while the director shuts down.
var errClosed = errors.New("output: the director is shutting down; recording resumes after a restart")

func (r *reader) wait(changed <-chan struct{}) error {
	if r.filter.Idle != nil {
		r.filter.Idle()
	}
	select {
	case <-changed:
		return nil
	case <-r.ctx.Done():
		return context.Cause(r.ctx)
	case <-r.store.ctx.Done():
		return errClosed
	}
}

// hand yields a line if it matches the filter. If Filter.Last limits the existing lines, hand keeps them for flushLast.
func (r *reader) hand(l Line) error {
	if r.filter.Stage != "" && l.Stream != "" && !strings.EqualFold(l.Stage, r.filter.Stage) {
		return nil
	}
	if r.filter.Last > 0 && !r.past {
		if r.last = append(r.last, l); len(r.last) > 2*r.filter.Last {
			r.last = append(r.last[:0], r.last[len(r.last)-r.filter.Last:]...)
		}
		return nil
	}
	if !r.yield(l, nil) {
		return errEnough
	}
	return r.ctx.Err()
}

// flushLast yields the newest existing lines.
func (r *reader) flushLast() error {
	if r.past {
		return nil
	}
	r.past = true
	last := r.last
	r.last = nil
	for _, l := range last[max(0, len(last)-r.filter.Last):] {
		if err := r.hand(l); err != nil {
			return err
		}
	}
	return nil
}

// cursor is a position in an attempt's output.
type cursor struct {
	*reader
	of   Attempt
	n    int64 // number of the last line that was read
	file io.ReadCloser
	rest []byte // incomplete last line
	gen  int    // value of recording.gen when file was opened; 0 before that
}

func (c *cursor) close() {
	if c.file != nil {
		_ = c.file.Close()
	}
	c.file, c.rest = nil, nil
}

// readOn reads everything after the cursor. rec is the recording of a running attempt, or nil. changed is closed when
// the recording has more output.
func (c *cursor) readOn(rec *recording) (changed <-chan struct{}, err error) {
	var files []io.ReadCloser
	if rec != nil {
		rec.mu.Lock() // keep the parts from rotating while they are opened
		rec.show()
		changed = rec.changed
		if c.file == nil || c.gen != rec.gen {
			c.gen = rec.gen
			files, err = c.open(olderSuffix, partSuffix)
		}
		rec.mu.Unlock()
	}
	if c.file != nil { // if newer files exist, this file is complete
		err = errors.Join(err, c.drain())
	}
	if err == nil && (rec == nil || c.file == nil && len(files) == 0) {
		var more []io.ReadCloser
		more, err = c.open(sealedSuffix, olderSuffix, partSuffix) // a recording that never finished has only the parts
		files = append(files, more...)
	}
	for _, f := range files {
		if err != nil {
			_ = f.Close()
			continue
		}
		c.close()
		c.file = f
		err = c.drain()
	}
	return changed, err
}

// open opens the existing files of the attempt.
func (c *cursor) open(suffixes ...string) (files []io.ReadCloser, err error) {
	for _, suffix := range suffixes {
		f, err := openText(filepath.Join(c.store.dir, folderName, c.folder, c.of.ID+suffix))
		if err == nil {
			files = append(files, f)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return files, err
		}
	}
	return files, nil
}

// drain passes the lines between the cursor and the end of the file to the reader.
func (c *cursor) drain() error {
	lines := bufio.NewReaderSize(c.file, 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		c.rest = append(c.rest, line...)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		text := c.rest
		c.rest = nil
		if err := c.line(text); err != nil {
			return err
		}
	}
}

func (c *cursor) line(text []byte) error {
	var l row
	// skip a header, a damaged line, or a line that was already read
	if !bytes.HasPrefix(text, []byte(`{"n":`)) || json.Unmarshal(text, &l) != nil || l.N <= c.n {
		return nil //nolint:nilerr // the missing number shows the damaged line
	}
	out := Line{At: l.At, AttemptID: c.of.ID, Attempt: c.of.N}
	if missing := l.N - c.n - 1; missing > 0 {
		gap := out
		gap.Skipped = missing
		if err := c.hand(gap); err != nil {
			return err
		}
	}
	c.n = l.N
	out.Stage, out.Stream, out.Text, out.SkippedBytes = l.Stage, l.Stream, l.Text, l.SkippedBytes
	return c.hand(out)
}
