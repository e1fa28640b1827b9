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

	"retake/internal/checkpoint"
)

// ErrClosed: nothing is taken for a checkout of an attempt that is over, or that never was to send anything.
var ErrClosed = errors.New("bus: nothing is taken of this attempt any more")

// CheckoutState is what is known of a task's checkout that travels.
type CheckoutState struct {
	Version  int               `json:"version"`
	N        int               `json:"n"`                 // checkpoints so far, of all attempts
	Manifest checkpoint.Digest `json:"manifest"`          // the checkout as it is
	Before   checkpoint.Digest `json:"before"`            // as it was before; zero: nothing
	Attempt  string            `json:"attempt,omitempty"` // whose checkpoint it is; empty: the director's own doing
	At       time.Time         `json:"at"`                // when it was that, as far as is known; UTC
	Open     *OpenCheckout     `json:"open,omitempty"`    // the attempt that has it; nil: none
	Refused  *RefusedCheckout  `json:"refused,omitempty"` // the last checkpoint, if it was
	// what the director needs to have the checkout again elsewhere
	Record json.RawMessage `json:"record,omitempty"`
}

// OpenCheckout is an attempt that may read a manifest, and whose checkpoints count if it writes.
type OpenCheckout struct {
	Worker string            `json:"worker"`
	Start  checkpoint.Digest `json:"start"` // manifest that it begins with
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

// Names of what is stored of a task: its state, and each chunk.
const (
	stateKey   = ".state"
	chunkInfix = ".c."
)

func (b *Bus) checkoutBucket() string { return b.options.streamName("RETAKE_CHECKOUTS") }

// ensureCheckouts opens the bucket of checkouts.
func (b *Bus) ensureCheckouts(ctx context.Context) error {
	kv, err := b.ownJS.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: b.checkoutBucket(), Description: "checkouts that travel: states and chunks, by task", History: 1,
		Replicas:     b.options.Replicas,
		MaxValueSize: checkpoint.ChunkBytes + 64<<10,
	})
	if err != nil {
		return fmt.Errorf("bucket %s: %w: does the server have JetStream, room, and %d replica(s)?", b.checkoutBucket(),
			noAnswer(err), b.options.Replicas)
	}
	b.checkouts.Store(&kv)
	return nil
}

// CheckoutStore is what is stored of one task's checkout. It belongs to one goroutine; the state is
// everybody's, and changes by compare-and-set only.
type CheckoutStore struct {
	b      *Bus
	kv     jetstream.KeyValue
	task   string
	stored map[checkpoint.Digest]bool
	// a chunk has at least so many bytes: of what was stored or read by this value, or is named by what counts
	sizes map[checkpoint.Digest]int64
}

// Checkout opens the store of a task. Nothing has to be there.
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
	info, err := answered(ctx, readTimeout, func(ctx context.Context) (*jetstream.StreamInfo, error) {
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
	return fmt.Errorf("bus: checkout of %s: %s: %w", c.task, what, noAnswer(err))
}

func (c *CheckoutStore) subject(rest string) string {
	return "$KV." + c.kv.Bucket() + "." + c.task + rest
}

func (c *CheckoutStore) stream(ctx context.Context) (jetstream.Stream, error) {
	s, err := answered(ctx, readTimeout, func(ctx context.Context) (jetstream.Stream,
		error,
	) {
		return c.b.ownJS.Stream(ctx, "KV_"+c.kv.Bucket())
	})
	if err != nil {
		return nil, c.failed("look", err)
	}
	return s, nil
}

// Has reports whether a chunk is stored.
func (c *CheckoutStore) Has(d checkpoint.Digest) bool { return c.stored[d] }

// Bytes is how much is stored, as far as this value knows: what it knows nothing of counts as the most that it
// may have.
func (c *CheckoutStore) Bytes() (n int64) {
	for d := range c.stored {
		n += cmp.Or(c.sizes[d], checkpoint.ChunkBytes)
	}
	return n
}

// holds makes sure that each chunk has as many bytes as a manifest takes of it. What is not stored is returned.
// A *checkpoint.Malformed: one has fewer.
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

// Put stores a chunk, unless it is. When it returns, the chunk is on the server's disk.
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

// ErrNoChunk: a chunk is not stored, or not any more.
var ErrNoChunk = errors.New("bus: no such chunk")

// Chunk reads one. It may be called from any goroutine.
func (c *CheckoutStore) Chunk(ctx context.Context, d checkpoint.Digest) ([]byte, error) {
	e, err := answered(ctx, readTimeout, func(ctx context.Context) (jetstream.KeyValueEntry, error) {
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

// State is what is known of the checkout. false: nothing is stored of this task.
func (c *CheckoutStore) State(ctx context.Context) (s CheckoutState, there bool, err error) {
	s, revision, err := c.state(ctx)
	return s, revision > 0, err
}

func (c *CheckoutStore) state(ctx context.Context) (s CheckoutState, revision uint64, err error) {
	e, err := answered(ctx, readTimeout, func(ctx context.Context) (jetstream.KeyValueEntry,
		error,
	) {
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

// CheckoutState is the state of a task's checkout. false: nothing is stored of it.
func (b *Bus) CheckoutState(ctx context.Context, task string) (CheckoutState, bool, error) {
	return (&CheckoutStore{b: b, kv: *b.checkouts.Load(), task: task}).State(ctx)
}

// ErrOlder: the record of a checkout is another director's meanwhile.
var ErrOlder = errors.New("bus: another director has replaced the record of the checkout")

// KeepRecord replaces the record of a task's checkout, if something is stored of it, and over is true of the
// record that is there; else ErrOlder.
func (b *Bus) KeepRecord(ctx context.Context, task string, record json.RawMessage,
	over func(json.RawMessage) bool,
) error {
	c := &CheckoutStore{b: b, kv: *b.checkouts.Load(), task: task}
	if err := c.mayChange(); err != nil {
		return err
	}
	var short bytes.Buffer // as it is stored
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

// change changes the state by compare-and-set; change is called again if another came before, and its error ends it.
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
		if !errors.Is(err, jetstream.ErrKeyExists) && !refused(err) {
			return s, c.failed("write its state", err)
		}
	}
	return CheckoutState{}, fmt.Errorf("bus: checkout of %s: others were first %d times", c.task, sharedTries)
}

// Open gives a checkout to an attempt: from now on it may read what the manifest names, and if it writes, its
// checkpoints are the checkout, and nobody else's. All that the manifest names is stored. record is kept beside
// it, see CheckoutState.
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

// Replace makes the checkout what a manifest names, all of which is stored, and puts record beside it, as
// KeepRecord does. While an attempt may write, that has the checkout, and this is an error.
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

// CloseCheckout ends what an attempt may do with its task's checkout, for ever: what it sends from now on is
// refused, by every director, also by one that does not know yet that it leads no more. It returns what the
// checkout is then. Who has not got nil does not know whether more will come. A task without anything stored is
// fine.
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

// DropCheckout forgets all that is stored of a task.
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

// Checkouts lists the tasks of which something is stored.
func (b *Bus) Checkouts(ctx context.Context) ([]string, error) {
	c := &CheckoutStore{b: b, kv: *b.checkouts.Load(), task: "*"}
	stream, err := c.stream(ctx)
	if err != nil {
		return nil, err
	}
	tasks := map[string]bool{}
	info, err := answered(ctx, readTimeout, func(ctx context.Context) (*jetstream.StreamInfo, error) {
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

// forget removes the chunks that no manifest of the state names: the checkout, the one before, and what an
// attempt begins with. The one before is there for a director that was stopped in here, and removes late. It is
// no error if something is left: the next time is soon.
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
