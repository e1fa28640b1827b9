package bus

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"retake/internal/bus/link"
	"retake/internal/checkpoint"
)

// ErrClosed rejects writes to the checkout of an attempt that is over, or that was never allowed to write.
var ErrClosed = errors.New("bus: nothing is taken of this attempt any more")

// CheckoutState is the known state of a task's checkout.
type CheckoutState struct {
	Version  int               `json:"version"`
	N        int               `json:"n"`                 // number of checkpoints so far, of all attempts
	Manifest checkpoint.Digest `json:"manifest"`          // current checkout
	Before   checkpoint.Digest `json:"before"`            // previous checkout, or zero
	Attempt  string            `json:"attempt,omitempty"` // author of the checkpoint, or empty if the director made it
	At       time.Time         `json:"at"`                // time of the checkpoint as far as known, in UTC
	Open     *OpenCheckout     `json:"open,omitempty"`    // the attempt that uses it, or nil
	Refused  *RefusedCheckout  `json:"refused,omitempty"` // the last checkpoint, if it was refused
	// data with which the director can restore the checkout elsewhere
	Record json.RawMessage `json:"record,omitempty"`
}

// OpenCheckout is an attempt that may read a manifest. If it may write, its checkpoints count.
type OpenCheckout struct {
	Worker string            `json:"worker"`
	Start  checkpoint.Digest `json:"start"` // the manifest that it begins with
	Writes bool              `json:"writes"`
}

// RefusedCheckout is a checkpoint that does not count.
type RefusedCheckout struct {
	Worker string    `json:"worker"`
	Why    string    `json:"why"`  // one of wire's words
	Text   string    `json:"text"` // for people
	At     time.Time `json:"at"`   // UTC
}

const checkoutVersion = 1

// Names of a task's stored data: its state, and each chunk.
const (
	stateKey   = ".state"
	chunkInfix = ".c."
)

func (b *Bus) checkoutBucket() string { return b.options.streamName("RETAKE_CHECKOUTS") }

// ensureCheckouts creates the bucket of checkouts.
func (b *Bus) ensureCheckouts(ctx context.Context) error {
	kv, err := b.ownJS.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: b.checkoutBucket(), Description: "checkouts that travel: states and chunks, by task", History: 1,
		Replicas:     b.options.Replicas,
		MaxValueSize: checkpoint.ChunkBytes + 64<<10,
	})
	if err != nil {
		return fmt.Errorf("bucket %s: %w: does the server have JetStream, room, and %d replica(s)?", b.checkoutBucket(),
			link.NoAnswer(err), b.options.Replicas)
	}
	b.checkouts.Store(&kv)
	return nil
}

// CheckoutStore is the stored checkout of one task. A value belongs to one goroutine. The state is shared with
// other processes, and changes only by compare-and-set.
type CheckoutStore struct {
	b      *Bus
	kv     jetstream.KeyValue
	task   string
	stored map[checkpoint.Digest]bool
	// minimal sizes of chunks that this value stored or read, or that the current manifests name
	sizes map[checkpoint.Digest]int64
}

// Checkout opens the store of a task, which may be empty.
func (b *Bus) Checkout(ctx context.Context, task string) (*CheckoutStore, error) {
	c := &CheckoutStore{
		b: b, kv: *b.checkouts.Load(), task: task, stored: map[checkpoint.Digest]bool{},
		sizes: map[checkpoint.Digest]int64{},
	}
	stream, err := c.stream(ctx)
	if err != nil {
		return nil, err
	}
	prefix := c.subject(chunkInfix)
	info, err := link.Answered(ctx, func(ctx context.Context) (*jetstream.StreamInfo, error) {
		return stream.Info(ctx, jetstream.WithSubjectFilter(prefix+"*"))
	})
	if err != nil {
		return nil, c.failed("list", err)
	}
	for subject := range info.State.Subjects {
		var d checkpoint.Digest
		if d.UnmarshalText([]byte(strings.TrimPrefix(subject, prefix))) == nil {
			c.stored[d] = true
		}
	}
	return c, nil
}

func (c *CheckoutStore) failed(what string, err error) error {
	return fmt.Errorf("bus: checkout of %s: %s: %w", c.task, what, link.NoAnswer(err))
}

func (c *CheckoutStore) subject(rest string) string {
	return "$KV." + c.kv.Bucket() + "." + c.task + rest
}

func (c *CheckoutStore) stream(ctx context.Context) (jetstream.Stream, error) {
	s, err := link.Answered(ctx, func(ctx context.Context) (jetstream.Stream, error) {
		return c.b.ownJS.Stream(ctx, "KV_"+c.kv.Bucket())
	})
	if err != nil {
		return nil, c.failed("look", err)
	}
	return s, nil
}

// Has reports whether a chunk is stored.
func (c *CheckoutStore) Has(d checkpoint.Digest) bool { return c.stored[d] }

// Bytes returns how much is stored. Chunks that this value does not know count with the largest size.
func (c *CheckoutStore) Bytes() (n int64) {
	for d := range c.stored {
		n += cmp.Or(c.sizes[d], checkpoint.ChunkBytes)
	}
	return n
}

// holds checks that each chunk is as long as a manifest needs. It returns the chunks that are not stored, and a
// *checkpoint.Malformed if one is too short.
func (c *CheckoutStore) holds(ctx context.Context, chunks map[checkpoint.Digest]int64) (missing []string, err error) {
	for name, want := range chunks {
		if !c.Has(name) {
			missing = append(missing, name.String())
			continue
		}
		if c.sizes[name] >= want {
			continue
		}
		data, err := c.Chunk(ctx, name)
		if errors.Is(err, ErrNoChunk) { // the server has lost it
			delete(c.stored, name)
			missing = append(missing, name.String())
			continue
		}
		if err != nil {
			return nil, err
		}
		if c.sizes[name] = int64(len(data)); c.sizes[name] < want {
			return nil, &checkpoint.Malformed{Text: fmt.Sprintf("chunk %s: %d bytes are taken of it, and it has %d",
				name, want, len(data))}
		}
	}
	return missing, nil
}

// Put stores a chunk unless it is stored already. When it returns, the chunk is on the server's disk.
func (c *CheckoutStore) Put(ctx context.Context, d checkpoint.Digest, data []byte) error {
	if c.stored[d] {
		return nil
	}
	if _, err := c.kv.Put(ctx, c.task+chunkInfix+d.String(), data); err != nil {
		return c.failed("store a chunk", err)
	}
	c.stored[d], c.sizes[d] = true, int64(len(data))
	return nil
}

// ErrNoChunk reports that a chunk is not stored, or was removed.
var ErrNoChunk = errors.New("bus: no such chunk")

// Chunk reads a chunk. It is safe for concurrent use.
func (c *CheckoutStore) Chunk(ctx context.Context, d checkpoint.Digest) ([]byte, error) {
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

// Load reads a manifest of the task that counts.
func (c *CheckoutStore) Load(ctx context.Context, d checkpoint.Digest,
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

// State returns the state of the checkout, or false if nothing is stored for this task.
func (c *CheckoutStore) State(ctx context.Context) (s CheckoutState, there bool, err error) {
	s, revision, err := c.state(ctx)
	return s, revision > 0, err
}

func (c *CheckoutStore) state(ctx context.Context) (s CheckoutState, revision uint64, err error) {
	e, err := link.Answered(ctx, func(ctx context.Context) (jetstream.KeyValueEntry, error) {
		return c.kv.Get(ctx, c.task+stateKey)
	})
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return s, 0, nil
	}
	if err != nil {
		return s, 0, c.failed("read its state", err)
	}
	if err := json.Unmarshal(e.Value(), &s); err != nil || s.Version != checkoutVersion {
		return s, 0, fmt.Errorf("bus: checkout of %s: its state has version %d, want %d: %w", c.task, s.Version,
			checkoutVersion, errors.Join(err, ErrDamaged))
	}
	return s, e.Revision(), nil
}

// CheckoutState returns the state of a task's checkout, or false if nothing is stored for it.
func (b *Bus) CheckoutState(ctx context.Context, task string) (CheckoutState, bool, error) {
	return (&CheckoutStore{b: b, kv: *b.checkouts.Load(), task: task}).State(ctx)
}

// ErrOlder reports that another director has stored a newer record of the checkout.
var ErrOlder = errors.New("bus: another director has replaced the record of the checkout")

// KeepRecord replaces the record of a task's stored checkout if over accepts the present one. Otherwise it
// returns ErrOlder.
func (b *Bus) KeepRecord(ctx context.Context, task string, record json.RawMessage,
	over func(json.RawMessage) bool,
) error {
	c := &CheckoutStore{b: b, kv: *b.checkouts.Load(), task: task}
	if err := c.mayChange(); err != nil {
		return err
	}
	var short bytes.Buffer // in stored form
	if err := json.Compact(&short, record); err != nil {
		return fmt.Errorf("bus: checkout of %s: its record: %w", task, err)
	}
	_, err := c.change(ctx, func(s *CheckoutState, there bool) error {
		if !there || bytes.Equal(s.Record, short.Bytes()) {
			return errUnchanged
		}
		if !over(s.Record) {
			return fmt.Errorf("%w: %s", ErrOlder, task)
		}
		s.Record = record
		return nil
	})
	if errors.Is(err, errUnchanged) {
		err = nil
	}
	return err
}

// change updates the state by compare-and-set. It calls change again after a conflict, and an error of change
// ends it.
func (c *CheckoutStore) change(ctx context.Context,
	change func(s *CheckoutState, there bool) error,
) (CheckoutState, error) {
	for range sharedTries {
		s, revision, err := c.state(ctx)
		if err == nil {
			err = change(&s, revision > 0)
		}
		if err != nil {
			return s, err
		}
		s.Version = checkoutVersion
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
	return CheckoutState{}, fmt.Errorf("bus: checkout of %s: others were first %d times", c.task, sharedTries)
}

// Open gives a checkout to an attempt. The attempt may read everything that the manifest names, which must all
// be stored. If it writes, its checkpoints become the checkout, and those of other attempts are rejected.
// record is stored with it, see CheckoutState.
func (c *CheckoutStore) Open(ctx context.Context, o OpenCheckout, record json.RawMessage) error {
	if err := c.mayChange(); err != nil {
		return err
	}
	s, err := c.change(ctx, func(s *CheckoutState, _ bool) error {
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
		c.b.intake.setUploads(o.Worker, true)
		c.forget(ctx, s)
	}
	return err
}

// Replace makes a manifest the checkout, and stores record as KeepRecord does. All chunks of the manifest must
// be stored. Replace fails while an attempt may write.
func (c *CheckoutStore) Replace(ctx context.Context, root checkpoint.Digest, record json.RawMessage,
	over func(json.RawMessage) bool,
) error {
	if err := c.mayChange(); err != nil {
		return err
	}
	s, err := c.change(ctx, func(s *CheckoutState, _ bool) error {
		if s.Open != nil && s.Open.Writes {
			return fmt.Errorf("bus: checkout of %s: attempt %s has it", c.task, s.Open.Worker)
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

// CloseCheckout permanently ends an attempt's access to its task's checkout. Every director rejects its later
// writes, even one that does not know yet that it lost the lease. CloseCheckout returns the final state. After
// an error, more checkpoints may still arrive. A task without stored data is not an error.
func (b *Bus) CloseCheckout(ctx context.Context, task, worker string) (CheckoutState, error) {
	b.intake.setUploads(worker, false)
	c := &CheckoutStore{b: b, kv: *b.checkouts.Load(), task: task}
	s, err := c.change(ctx, func(s *CheckoutState, there bool) error {
		if !there || s.Open == nil || s.Open.Worker != worker {
			return errUnchanged
		}
		s.Open = nil
		return nil
	})
	if errors.Is(err, errUnchanged) {
		err = nil
	}
	return s, err
}

var errUnchanged = errors.New("bus: nothing to change")

// DropCheckout removes everything stored for a task.
func (b *Bus) DropCheckout(ctx context.Context, task string) error {
	c := &CheckoutStore{b: b, kv: *b.checkouts.Load(), task: task}
	if err := c.mayChange(); err != nil {
		return err
	}
	stream, err := c.stream(ctx)
	if err == nil {
		err = stream.Purge(ctx, jetstream.WithPurgeSubject(c.subject(".>")))
	}
	if err != nil {
		return c.failed("forget", err)
	}
	return nil
}

// Checkouts lists the tasks with stored data.
func (b *Bus) Checkouts(ctx context.Context) ([]string, error) {
	c := &CheckoutStore{b: b, kv: *b.checkouts.Load(), task: "*"}
	stream, err := c.stream(ctx)
	if err != nil {
		return nil, err
	}
	tasks := map[string]bool{}
	info, err := link.Answered(ctx, func(ctx context.Context) (*jetstream.StreamInfo, error) {
		return stream.Info(ctx, jetstream.WithSubjectFilter(c.subject(stateKey)))
	})
	if err != nil {
		return nil, c.failed("list", err)
	}
	for subject := range info.State.Subjects {
		task, _, _ := strings.Cut(strings.TrimPrefix(subject, "$KV."+c.kv.Bucket()+"."), ".")
		tasks[task] = true
	}
	return slices.Sorted(maps.Keys(tasks)), nil
}

func (c *CheckoutStore) mayChange() error {
	if leads := c.b.options.Leads; leads != nil && !leads() {
		return ErrNotLeading
	}
	return nil
}

// forget removes chunks that are named by neither the current checkout, the previous one, nor the one that an
// attempt begins with. The previous one is kept for a director that was stopped in this function and continues
// late. Leftover chunks are not an error, because the next call comes soon.
func (c *CheckoutStore) forget(ctx context.Context, s CheckoutState) {
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
			c.b.log.Debug("chunks of a checkout are kept that may be of no use", zap.String("task", c.task),
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
			err = c.mayChange()
		}
		if err == nil {
			err = stream.Purge(ctx, jetstream.WithPurgeSubject(c.subject(chunkInfix+d.String())))
		}
		if err != nil {
			c.b.log.Debug("chunks of a checkout are left that are of no use", zap.String("task", c.task),
				zap.Error(err))
			return
		}
		delete(c.stored, d)
		delete(c.sizes, d)
	}
}
