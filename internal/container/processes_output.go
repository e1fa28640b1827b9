package container

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"retake/internal/container/supervisor"
)

// FollowOutput works like Docker.FollowOutput. Output from before the call has a zero time, and later output has the
// time at which it was read.
func (p *Processes) FollowOutput(ctx context.Context, attemptID string, take func(Printed)) error {
	streams := [2]growing{{name: supervisor.StdoutFile}, {name: supervisor.StderrFile, stderr: true}}
	defer func() {
		for i := range streams {
			streams[i].close()
		}
	}()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for seen := (time.Time{}); ; seen = time.Now() {
		here, found, err := p.lookup(attemptID)
		if err != nil || !found {
			return err
		}
		ended := !here.supervised || here.ended != nil && here.ended.Clean
		for i := range streams {
			s := &streams[i]
			s.dir = here.dir
			err := s.readOn(ctx, func(data []byte) { take(Printed{At: seen, Stderr: s.stderr, Data: data}) })
			if err != nil {
				return hostFailure("read the output of "+attemptID, err)
			}
		}
		if ended {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// growing reads a stream's file while a supervisor appends to it and rotates it.
type growing struct {
	dir, name string
	stderr    bool
	file      *os.File
}

func (g *growing) close() {
	if g.file != nil {
		_ = g.file.Close()
		g.file = nil
	}
}

// readOn calls take with new output. It misses output that the supervisor has rotated out of the files since the last
// call.
func (g *growing) readOn(ctx context.Context, take func([]byte)) error {
	if g.file == nil { // begin with the older part, if it exists
		if err := g.open(g.name + supervisor.Older); err != nil {
			return err
		}
	}
	for ctx.Err() == nil {
		if g.file != nil {
			if err := copyChunks(ctx, g.file, take); err != nil {
				return err
			}
		}
		newest, err := os.Stat(filepath.Join(g.dir, g.name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the stream has no output yet, or is being rotated
		}
		if err != nil {
			return err
		}
		if g.file == nil {
			if err := g.open(g.name); err != nil {
				return err
			}
			continue
		}
		mine, err := g.file.Stat()
		if err != nil || os.SameFile(mine, newest) {
			return err
		}
		// A rotated part does not grow, so reading it once more completes it.
		next := g.name
		if older, err := os.Stat(filepath.Join(g.dir, g.name+supervisor.Older)); err == nil &&
			!os.SameFile(mine, older) {
			next = g.name + supervisor.Older
		} else if err := copyChunks(ctx, g.file, take); err != nil {
			return err
		}
		g.close()
		if err := g.open(next); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// open opens a part, if it exists.
func (g *growing) open(name string) error {
	f, err := os.Open(filepath.Join(g.dir, name))
	if err == nil {
		g.file = f
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// copyChunks calls take with the rest of a file.
func copyChunks(ctx context.Context, f *os.File, take func([]byte)) error {
	chunk := make([]byte, 32<<10)
	for ctx.Err() == nil {
		n, err := f.Read(chunk)
		if n > 0 {
			take(chunk[:n])
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}
