package checkpoint

import (
	"context"
	"fmt"
	"io"
	"sync"
)

// fetchers limits how many chunks fetchAhead fetches ahead of fill.
const fetchers = 8

// job is one large file, or one chunk with all small files in it.
type job struct {
	chunk Digest
	small []*Entry
	large *Entry
}

// jobs groups files so that fill fetches each chunk of small files once.
func jobs(files []*Entry) (all []*job) {
	byChunk := map[Digest]*job{}
	for _, e := range files {
		if len(e.Parts) != 1 || e.Parts[0].hole() {
			all = append(all, &job{large: e})
			continue
		}
		j := byChunk[e.Parts[0].Chunk]
		if j == nil {
			j = &job{chunk: e.Parts[0].Chunk}
			byChunk[j.chunk], all = j, append(all, j)
		}
		j.small = append(j.small, e)
	}
	return all
}

// chunks returns the chunks that a job needs, in the order of use.
func (j *job) chunks() (all []Digest) {
	if j.large == nil {
		return []Digest{j.chunk}
	}
	for _, p := range j.large.Parts {
		if !p.hole() {
			all = append(all, p.Chunk)
		}
	}
	return all
}

// fill writes the content of files. It fetches chunks ahead, concurrently, and uses them in the order of the jobs. On
// an error it cancels the other fetches and waits for them.
func (a *applier) fill(ctx context.Context, files []*Entry, fetch func(context.Context, Digest) ([]byte, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	work := jobs(files)
	next := fetchAhead(ctx, &running, work, fetch)
	for _, j := range work {
		var err error
		if j.large != nil {
			err = a.writeLarge(j.large, next)
		} else {
			err = a.writeSmall(j, next)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fetched is a chunk that is being fetched. data and err are valid after done is closed.
type fetched struct {
	name Digest
	done chan struct{}
	data []byte
	err  error
}

// fetchAhead starts fetching the chunks of the jobs. The returned function waits for the next chunk, in the order of
// the jobs, and returns it. running counts all goroutines, which end with ctx or after the last chunk.
func fetchAhead(ctx context.Context, running *sync.WaitGroup, work []*job, fetch func(context.Context, Digest) ([]byte,
	error),
) func() ([]byte, error) {
	queue := make(chan *fetched, fetchers)
	running.Go(func() {
		defer close(queue)
		for _, j := range work {
			for _, d := range j.chunks() {
				c := &fetched{name: d, done: make(chan struct{})}
				select {
				case queue <- c:
				case <-ctx.Done():
					return
				}
				running.Go(func() {
					defer close(c.done)
					data, err := fetch(ctx, c.name)
					c.data, c.err = verified(c.name, data, err)
				})
			}
		}
	})
	return func() ([]byte, error) {
		c, ok := <-queue
		if !ok {
			return nil, context.Cause(ctx)
		}
		<-c.done
		return c.data, c.err
	}
}

// piece returns the bytes of a part from its chunk.
func piece(e *Entry, p Part, chunk []byte) ([]byte, error) {
	if p.Off+p.Len > int64(len(chunk)) {
		return nil, fmt.Errorf("%s: %w: the chunk is too short", Shortened([]byte(e.Path)), errChunk)
	}
	return chunk[p.Off : p.Off+p.Len], nil
}

func (a *applier) writeSmall(j *job, next func() ([]byte, error)) error {
	chunk, err := next()
	if err != nil {
		return err
	}
	for _, e := range j.small {
		data, err := piece(e, e.Parts[0], chunk)
		if err != nil {
			return err
		}
		f, err := a.create(e)
		if err != nil {
			return err
		}
		if _, err = f.Write(data); err != nil {
			_ = f.Close()
			return err
		}
		if err := finish(f, e); err != nil {
			return err
		}
	}
	return nil
}

func (a *applier) writeLarge(e *Entry, next func() ([]byte, error)) error {
	f, err := a.create(e)
	if err != nil {
		return err
	}
	for _, p := range e.Parts {
		if p.hole() {
			_, err = f.Seek(p.Len, io.SeekCurrent)
		} else {
			var chunk, data []byte
			if chunk, err = next(); err == nil {
				data, err = piece(e, p, chunk)
			}
			if err == nil {
				_, err = f.Write(data)
			}
		}
		if err != nil {
			_ = f.Close()
			return err
		}
	}
	return finish(f, e)
}
