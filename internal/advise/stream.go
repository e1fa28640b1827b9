package advise

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
)

// Source is one input: a file, or what is piped in.
type Source struct {
	Name string // stands in front of errors; empty: only the line's number does
	io.Reader
}

// asker answers one line: with what is written as JSON, or with an error about its content.
type asker func(data []byte) (answer any, err error)

// A batch is handed over at once: with fewer the hand-over costs more than the answer, with more people wait.
const (
	batchLines = 128
	batchBytes = 256 << 10
)

// batch is some successive lines of one source, and their answers once done is closed.
type batch struct {
	source string
	lines  []line
	err    error // why no more lines can follow

	done chan struct{}
	out  bytes.Buffer
	bad  int
}

// stream answers every line of the sources in their order and returns how many lines were bad. It ends early when ctx
// does or when out cannot be written; then a read that still waits is left behind, for nothing can interrupt it.
func stream(ctx context.Context, sources []Source, out io.Writer, ask asker) (bad int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	workers := runtime.GOMAXPROCS(0)
	order := make(chan *batch, 2*workers) // bounds what is in memory
	work := make(chan *batch, 2*workers)
	var answering sync.WaitGroup
	defer answering.Wait()
	defer cancel()
	go func() {
		defer close(work)
		defer close(order)
		for _, s := range sources {
			if !read(ctx, s, order, work) {
				return
			}
		}
	}()
	for range workers {
		answering.Go(func() { answerAll(ctx, work, ask) })
	}
	for {
		select {
		case b, ok := <-order:
			if !ok {
				return bad, context.Cause(ctx)
			}
			select {
			case <-b.done:
			case <-ctx.Done():
				return bad, context.Cause(ctx)
			}
			bad += b.bad
			if _, err := out.Write(b.out.Bytes()); err != nil {
				return bad, err
			}
			if b.err != nil {
				return bad, b.err
			}
		case <-ctx.Done():
			return bad, context.Cause(ctx)
		}
	}
}

// read cuts one source into batches; false: nobody wants any more.
func read(ctx context.Context, s Source, order, work chan<- *batch) bool {
	lines := newLineReader(s)
	for {
		b := nextBatch(lines, s.Name)
		ended := errors.Is(b.err, io.EOF)
		if ended {
			b.err = nil
		}
		for _, to := range []chan<- *batch{order, work} {
			select {
			case to <- b:
			case <-ctx.Done():
				return false
			}
		}
		if ended {
			return true
		}
		if b.err != nil {
			return false
		}
	}
}

// nextBatch takes the lines that are there, at least one: who pipes one line at a time gets one answer at a time.
func nextBatch(lines *lineReader, source string) *batch {
	b := &batch{source: source, done: make(chan struct{})}
	for size := 0; len(b.lines) < batchLines && size < batchBytes && (len(b.lines) == 0 || lines.more()); {
		x, err := lines.next()
		if !x.blank() {
			b.lines = append(b.lines, x)
			size += len(x.data)
		}
		if err != nil {
			b.err = err
			break
		}
	}
	return b
}

// answerAll answers batches until there are no more, or nobody waits for them.
func answerAll(ctx context.Context, work <-chan *batch, ask asker) {
	for {
		select {
		case b, ok := <-work:
			if !ok {
				return
			}
			b.answer(ask)
			close(b.done)
		case <-ctx.Done():
			return
		}
	}
}

func (b *batch) answer(ask asker) {
	enc := json.NewEncoder(&b.out)
	enc.SetEscapeHTML(false)
	for _, x := range b.lines {
		var answer any
		var err error
		if x.tooLong {
			err = fmt.Errorf("longer than %d bytes: send the tail of the text only", MaxLine)
		} else {
			answer, err = ask(x.data)
		}
		if err == nil {
			err = enc.Encode(answer)
		}
		if err != nil {
			b.bad++
			_ = enc.Encode(refusal{idOf(x.data), b.where(x) + err.Error()})
		}
	}
	b.lines = nil // only the answers are kept until their turn comes
}

func (b *batch) where(x line) string {
	at := fmt.Sprintf("line %d: ", x.number)
	if b.source != "" {
		at = b.source + " " + at
	}
	return at
}

// refusal answers a line that cannot be answered.
type refusal struct {
	ID    json.RawMessage `json:"id,omitempty"`
	Error string          `json:"error"`
}
