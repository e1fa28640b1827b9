package checkouts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"retake/internal/bus/chain"
	"retake/internal/bus/link"
	"retake/internal/checkpoint"
)

// changeTries is the maximum number of compare-and-set tries while other processes keep changing the state.
const changeTries = 16

// Key suffix of a task's state, and key infix of its chunks.
const (
	stateKey   = ".state"
	chunkInfix = ".c."
)

// Store is the stored checkout of one task. A Store is not safe for concurrent use. The state is shared with other
// processes, and changes only by compare-and-set.
type Store struct {
	shelf  *Shelf
	kv     jetstream.KeyValue
	task   string
	stored map[checkpoint.Digest]bool
	// sizes holds a lower bound for the size of each chunk that this Store has stored or read, or that appears in a
	// loaded manifest.
	sizes map[checkpoint.Digest]int64
}

func (c *Store) failed(what string, err error) error {
	return fmt.Errorf("checkouts: checkout of %s: %s: %w", c.task, what, link.NoAnswer(err))
}

func (c *Store) subject(rest string) string {
	return "$KV." + c.kv.Bucket() + "." + c.task + rest
}

func (c *Store) stream(ctx context.Context) (jetstream.Stream, error) {
	s, err := link.Answered(ctx, func(ctx context.Context) (jetstream.Stream, error) {
		return c.shelf.o.JS.Stream(ctx, "KV_"+c.kv.Bucket())
	})
	if err != nil {
		return nil, c.failed("look", err)
	}
	return s, nil
}

// Has reports whether a chunk is stored.
func (c *Store) Has(d checkpoint.Digest) bool { return c.stored[d] }

// Bytes returns the number of stored bytes. A chunk of unknown size counts as the maximum size.
func (c *Store) Bytes() (n int64) {
	for d := range c.stored {
		n += cmp.Or(c.sizes[d], checkpoint.ChunkBytes)
	}
	return n
}

// holds checks that each chunk is stored and at least as long as the manifest requires. It returns the names of missing
// chunks, and a *checkpoint.Malformed if a chunk is too short. It calls read with the length of each chunk it reads.
func (c *Store) holds(ctx context.Context, chunks map[checkpoint.Digest]int64, read func(bytes int) error,
) (missing []string, err error) {
	for name, want := range chunks {
		if !c.Has(name) {
			missing = append(missing, name.String())
			continue
		}
		if c.sizes[name] >= want {
			continue
		}
		data, err := c.Chunk(ctx, name)
		if errors.Is(err, ErrNoChunk) { // the server has lost the chunk
			delete(c.stored, name)
			missing = append(missing, name.String())
			continue
		}
		if err == nil {
			err = read(len(data))
		}
		if err != nil {
			return nil, err
		}
		if c.sizes[name] = int64(len(data)); c.sizes[name] < want {
			return nil, &checkpoint.Malformed{Text: fmt.Sprintf("chunk %s: want at least %d bytes, got %d",
				name, want, len(data))}
		}
	}
	return missing, nil
}

// Put stores a chunk unless it is already stored. When Put returns, the chunk is on the server's disk.
func (c *Store) Put(ctx context.Context, d checkpoint.Digest, data []byte) error {
	if c.stored[d] {
		return nil
	}
	if _, err := c.kv.Put(ctx, c.task+chunkInfix+d.String(), data); err != nil {
		return c.failed("store a chunk", err)
	}
	c.stored[d], c.sizes[d] = true, int64(len(data))
	return nil
}

// ErrNoChunk means that a chunk was never stored, or was removed.
var ErrNoChunk = errors.New("checkouts: no such chunk")

// Chunk reads a chunk. It is safe for concurrent use.
func (c *Store) Chunk(ctx context.Context, d checkpoint.Digest) ([]byte, error) {
	e, err := link.Answered(ctx, func(ctx context.Context) (jetstream.KeyValueEntry, error) {
		return c.kv.Get(ctx, c.task+chunkInfix+d.String())
	})
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, fmt.Errorf("%w: %s of %s", ErrNoChunk, d, c.task)
	}
	if err != nil {
		return nil, c.failed("read a chunk", err)
	}
	return e.Value(), nil
}

// Load reads a manifest that belongs to the task's current state.
func (c *Store) Load(ctx context.Context, d checkpoint.Digest,
	l checkpoint.Limits,
) (*checkpoint.Manifest, error) {
	m, err := checkpoint.Load(d, l, func(d checkpoint.Digest) ([]byte, error) { return c.Chunk(ctx, d) })
	if err == nil {
		for name, size := range m.Chunks {
			c.sizes[name] = max(c.sizes[name], size)
		}
	}
	return m, err
}

// State returns the state of the checkout. If nothing is stored for this task, the second result is false.
func (c *Store) State(ctx context.Context) (s State, there bool, err error) {
	s, revision, err := c.state(ctx)
	return s, revision > 0, err
}

func (c *Store) state(ctx context.Context) (s State, revision uint64, err error) {
	e, err := link.Answered(ctx, func(ctx context.Context) (jetstream.KeyValueEntry, error) {
		return c.kv.Get(ctx, c.task+stateKey)
	})
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return s, 0, nil
	}
	if err != nil {
		return s, 0, c.failed("read its state", err)
	}
	if err := json.Unmarshal(e.Value(), &s); err != nil || s.Version != stateVersion {
		return s, 0, fmt.Errorf("checkouts: checkout of %s: its state has version %d, want %d: %w", c.task, s.Version,
			stateVersion, errors.Join(err, chain.ErrDamaged))
	}
	return s, e.Revision(), nil
}

// change updates the state by compare-and-set. After a conflict with another process, it rereads the state and calls
// the callback again. If the callback returns an error, change returns it without writing.
func (c *Store) change(ctx context.Context,
	change func(s *State, there bool) error,
) (State, error) {
	for range changeTries {
		s, revision, err := c.state(ctx)
		if err == nil {
			err = change(&s, revision > 0)
		}
		if err != nil {
			return s, err
		}
		s.Version = stateVersion
		data, err := json.Marshal(s)
		if err == nil && revision == 0 {
			_, err = c.kv.Create(ctx, c.task+stateKey, data)
		} else if err == nil {
			_, err = c.kv.Update(ctx, c.task+stateKey, data, revision)
		}
		if err == nil {
			return s, nil
		}
		if !errors.Is(err, jetstream.ErrKeyExists) && !link.Refused(err) {
			return s, c.failed("write its state", err)
		}
	}
	return State{}, fmt.Errorf("checkouts: checkout of %s: gave up after %d conflicting writes", c.task, changeTries)
}

// Open gives a checkout to an attempt. The attempt may read all chunks of the manifest, which must already be stored.
// If the attempt may write, its checkpoints become the checkout, and other attempts' checkpoints are rejected. A
// non-nil record replaces State.Record.
func (c *Store) Open(ctx context.Context, o Opened, record json.RawMessage) error {
	if err := c.shelf.o.Leads.MayChange(); err != nil {
		return err
	}
	s, err := c.change(ctx, func(s *State, _ bool) error {
		s.Open, s.Refused = &o, nil
		if o.Writes {
			if s.Manifest != o.Start {
				s.Before, s.Manifest = s.Manifest, o.Start
			}
			s.Attempt, s.At = "", time.Now().UTC()
		}
		if record != nil {
			s.Record = record
		}
		return nil
	})
	if err == nil {
		c.shelf.o.Pass(o.Worker).open()
		c.forget(ctx, s)
	}
	return err
}

// Replace makes a manifest the checkout and replaces the record. It first calls over with the stored record, and
// returns ErrOlder without changing anything if over returns false. All chunks of the manifest must be stored. Replace
// fails while an attempt may write.
func (c *Store) Replace(ctx context.Context, root checkpoint.Digest, record json.RawMessage,
	over func(json.RawMessage) bool,
) error {
	if err := c.shelf.o.Leads.MayChange(); err != nil {
		return err
	}
	s, err := c.change(ctx, func(s *State, _ bool) error {
		if s.Open != nil && s.Open.Writes {
			return fmt.Errorf("checkouts: checkout of %s: attempt %s is using it", c.task, s.Open.Worker)
		}
		if !over(s.Record) {
			return fmt.Errorf("%w: %s", ErrOlder, c.task)
		}
		if s.Manifest != root {
			s.Before, s.Manifest = s.Manifest, root
		}
		s.Record = record
		return nil
	})
	if err == nil {
		c.forget(ctx, s)
	}
	return err
}

// forget removes all chunks that are not part of the current checkout, the previous checkout or s.Open.Start. It keeps
// the previous checkout, because a suspended director may run forget late, with an old state. It only logs errors,
// because the next call removes the remaining chunks.
func (c *Store) forget(ctx context.Context, s State) {
	named := map[checkpoint.Digest]int64{}
	roots := []checkpoint.Digest{s.Manifest, s.Before}
	if s.Open != nil {
		roots = append(roots, s.Open.Start)
	}
	for _, root := range roots {
		if root == (checkpoint.Digest{}) || named[root] > 0 {
			continue
		}
		m, err := c.Load(ctx, root, checkpoint.Unlimited)
		if err != nil {
			c.shelf.o.Log.Debug("could not determine unused checkout chunks", zap.String("task", c.task),
				zap.Error(err))
			return
		}
		maps.Copy(named, m.Chunks)
	}
	stream, err := c.stream(ctx)
	for d := range c.stored {
		if _, keep := named[d]; keep {
			continue
		}
		if err == nil {
			err = c.shelf.o.Leads.MayChange()
		}
		if err == nil {
			err = stream.Purge(ctx, jetstream.WithPurgeSubject(c.subject(chunkInfix+d.String())))
		}
		if err != nil {
			c.shelf.o.Log.Debug("could not remove unused checkout chunks", zap.String("task", c.task),
				zap.Error(err))
			return
		}
		delete(c.stored, d)
		delete(c.sizes, d)
	}
}
