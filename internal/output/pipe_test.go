package output

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// pipe is a source controlled by a test.
type pipe struct {
	chunks chan Chunk
	taken  chan struct{}
	failed chan error // breaks the source off
}

func newPipe() *pipe {
	return &pipe{chunks: make(chan Chunk), taken: make(chan struct{}), failed: make(chan error)}
}

func (p *pipe) source(ctx context.Context, take func(Chunk)) error {
	for {
		select {
		case c, more := <-p.chunks:
			if !more {
				return nil
			}
			take(c)
			p.taken <- struct{}{}
		case err := <-p.failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p *pipe) print(text string) { p.send(Chunk{At: noon, Data: []byte(text)}) }

func (p *pipe) send(c Chunk) {
	p.chunks <- c
	<-p.taken
}

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func open(t *testing.T, dir string, k Keep) *Store {
	t.Helper()
	s := Open(dir, Options{Keep: k})
	t.Cleanup(s.Close)
	return s
}

func attemptOf(n int, p *pipe) Recording {
	return Recording{Issue: issue, ID: fmt.Sprintf("k3v9qx2m-%d", n), N: n, Source: p.source}
}

func finish(t *testing.T, s *Store, r Recording) Stored {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stored, err := s.Finish(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

// texts returns the lines as people would see them.
func texts(t *testing.T, s *Store, f Filter) (lines []string) {
	t.Helper()
	for l, err := range s.Lines(t.Context(), issue, f) {
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, shown(l))
	}
	return lines
}

func shown(l Line) string {
	switch {
	case l.Skipped > 0:
		return fmt.Sprintf("%d lines skipped", l.Skipped)
	case l.SkippedBytes > 0:
		return fmt.Sprintf("%d bytes skipped", l.SkippedBytes)
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s %s %s", l.Attempt, l.Stage, l.Stream, l.Text))
}

func want(t *testing.T, got []string, lines ...string) {
	t.Helper()
	if !slices.Equal(got, lines) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(lines, "\n"))
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never: " + what)
		}
	}
}

func sizeOf(t *testing.T, dir string) (size int64) {
	t.Helper()
	found, _ := filepath.Glob(filepath.Join(dir, folderName, "*", "*"))
	for _, path := range found {
		if info, err := os.Stat(path); err == nil {
			size += info.Size()
		}
	}
	return size
}
