package checkouts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"retake/internal/bus/link"
	"retake/internal/bus/wire"
	"retake/internal/checkpoint"
)

// Rules limit the checkouts that travel over the bus, and map each worker to a task.
type Rules struct {
	Limits checkpoint.Limits
	Quota  int64                      // limit on a checkout's disk usage in bytes, or 0 for no limit
	Task   func(worker string) string // returns the task of a worker's checkout
}

// Rate limit on one worker's requests about its checkout, in bytes. A request beyond the limit waits without delaying
// other workers. A small request counts as perRequest bytes.
const (
	perSecond  = 64 << 20
	atOnce     = 512 << 20
	perRequest = 4 << 10
	// The chunks of a task may have twice the size limit of its checkout, plus spareChunks bytes.
	spareChunks = 256 << 20
	// The rate limit counts each byte of a manifest as perManifestByte bytes, because the director also decodes the
	// manifest, and reads it again when it removes older manifests. loadTimeout is also the time after which a worker
	// repeats its request.
	perManifestByte = 4
	loadTimeout     = time.Minute
	// mostMissing is the maximum number of missing chunks listed in an answer.
	mostMissing = 500
)

// Service is the part of a Desk that all workers share.
type Service struct {
	Shelf    *Shelf
	Rules    Rules
	Subjects wire.Subjects
	Writer   *link.Writer
	Key      func(worker string) []byte // returns the key for a worker's signatures
	// Unreadable is called for a checkpoint that cannot be read.
	Unreadable func(worker string, err error, m *nats.Msg)
}

// Desk answers one worker's requests about its checkout. It is not safe for concurrent use.
type Desk struct {
	Service
	worker string
	pass   *Pass
	shut   func() bool // reports whether the worker's messages no longer count
	task   string
	pace   *rate.Limiter

	store  *Store // nil until read
	opened uint64 // value of pass.opened when store was read
	open   Opened
	names  map[checkpoint.Digest]int64 // chunks that the worker may read
}

// NewDesk returns a Desk for a worker. The Desk refuses requests once shut returns true.
func NewDesk(s Service, worker string, p *Pass, shut func() bool) *Desk {
	return &Desk{
		Service: s, worker: worker, pass: p, shut: shut, task: s.Rules.Task(worker),
		pace: rate.NewLimiter(perSecond, atOnce),
	}
}

// refusal explains why a request was rejected.
type refusal struct{ why, text string }

func (r *refusal) Error() string { return "checkouts: " + r.why + ": " + r.text }

func refuse(why, format string, args ...any) error {
	return &refusal{why, fmt.Sprintf(format, args...)}
}

// refusalOf converts an error into a refusal for the worker.
func refusalOf(err error) *refusal {
	var r *refusal
	over, isOver := errors.AsType[*checkpoint.Exceeded](err)
	wrong, isWrong := errors.AsType[*checkpoint.Malformed](err)
	switch {
	case errors.As(err, &r):
		return r
	case isOver:
		return &refusal{wire.RefusedTooMuch, over.Text}
	case isWrong:
		return &refusal{wire.RefusedMalformed, wrong.Text}
	case errors.Is(err, ErrClosed):
		return &refusal{wire.RefusedClosed, ErrClosed.Error()}
	default:
		return &refusal{wire.RefusedBusy, "the director cannot handle this request now"}
	}
}

// Answer answers a request. It first waits until the worker's rate limit permits the request.
func (d *Desk) Answer(ctx context.Context, m *nats.Msg) {
	cost := min(max(len(m.Data), perRequest), atOnce)
	if d.pace.WaitN(ctx, cost) != nil {
		return // without an answer, the worker repeats the request
	}
	switch m.Subject {
	case d.Subjects.Checkout(wire.CheckoutOpSave, d.worker):
		d.Writer.Respond(m.Subject, m.Respond, d.save(ctx, m))
		return
	case d.Subjects.Checkout(wire.CheckoutOpGet, d.worker):
		data, err := d.get(ctx, m.Data)
		d.respond(m, data, err)
	case d.Subjects.Checkout(wire.CheckoutOpPut, d.worker):
		d.respond(m, nil, d.put(ctx, m.Data))
	}
}

// respond answers with data, or with a refusal if err is not nil.
func (d *Desk) respond(m *nats.Msg, data []byte, err error) {
	out := nats.NewMsg(m.Reply)
	out.Data = data
	if err != nil {
		r := d.said(err)
		out.Header[wire.RefusedHeader], out.Data = []string{r.why}, []byte(r.text)
	}
	if err := m.RespondMsg(out); err != nil {
		d.Shelf.o.Log.Warn("could not send answer", zap.String("subject", m.Subject), zap.Error(err))
	}
}

// said returns the refusal for an error, and logs errors that the worker did not cause.
func (d *Desk) said(err error) *refusal {
	r := refusalOf(err)
	if r.why == wire.RefusedBusy {
		d.Shelf.o.Log.Warn("could not transfer checkout; its worker will retry",
			zap.String("worker", d.worker), zap.Error(err))
	}
	return r
}

// begin checks that the worker may use its checkout. It reads the stored state once, and again only if the checkout is
// reopened.
func (d *Desk) begin(ctx context.Context) error {
	if d.pass.sealed.Load() || d.shut() {
		return ErrClosed
	}
	opened := d.pass.opened.Load()
	if d.store != nil && d.opened == opened {
		return nil
	}
	store, err := d.Shelf.Open(ctx, d.task)
	if err != nil {
		return err
	}
	s, _, err := store.State(ctx)
	if err != nil {
		return err
	}
	if s.Open == nil || s.Open.Worker != d.worker {
		return ErrClosed
	}
	m, err := store.Load(ctx, s.Open.Start, checkpoint.Unlimited)
	if errors.Is(err, ErrNoChunk) { // two newer checkpoints of this worker have replaced the manifest
		m, err = &checkpoint.Manifest{}, nil
	}
	if err != nil {
		return err
	}
	// Load records the sizes of the chunks in the last checkpoint. If chunks are lost, take requests them again.
	if s.Manifest != s.Open.Start && s.Manifest != (checkpoint.Digest{}) {
		if _, err := store.Load(ctx, s.Manifest, checkpoint.Unlimited); err != nil && !errors.Is(err, ErrNoChunk) {
			return err
		}
	}
	d.store, d.opened, d.open, d.names = store, opened, *s.Open, m.Chunks
	return nil
}

// get returns a chunk of the attempt's initial checkout.
func (d *Desk) get(ctx context.Context, name []byte) ([]byte, error) {
	if err := d.begin(ctx); err != nil {
		return nil, err
	}
	var digest checkpoint.Digest
	if err := digest.UnmarshalText(name); err != nil {
		return nil, err
	}
	if _, named := d.names[digest]; !named {
		return nil, refuse(wire.RefusedNotThere, "%s is not a chunk of the attempt's initial checkout", digest)
	}
	if d.pace.WaitN(ctx, int(d.names[digest])) != nil {
		return nil, ctx.Err()
	}
	data, err := d.store.Chunk(ctx, digest)
	if errors.Is(err, ErrNoChunk) { // retrying would not help
		err = refuse(wire.RefusedNotThere, "the bus has lost %s", digest)
	}
	return data, err
}

// put stores a chunk under the digest of its content, so that a dishonest sender cannot replace other chunks.
func (d *Desk) put(ctx context.Context, data []byte) error {
	if err := d.begin(ctx); err != nil {
		return err
	}
	switch most := 2*d.Rules.Limits.Bytes + spareChunks; {
	case !d.open.Writes:
		return ErrClosed
	case len(data) == 0 || len(data) > checkpoint.ChunkBytes:
		return refuse(wire.RefusedMalformed, "chunk has %d bytes; want 1 to %d", len(data), checkpoint.ChunkBytes)
	case d.store.Bytes()+int64(len(data)) > most:
		return refuse(wire.RefusedTooMuch, "the chunks sent for the checkout exceed %d bytes (checkout.max_bytes)",
			most)
	}
	if err := d.Shelf.o.Leads.MayChange(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, link.StoreTimeout)
	defer cancel()
	name := checkpoint.DigestOf(data)
	if d.store.Has(name) {
		return nil
	}
	err := d.store.Put(ctx, name, data)
	if err == nil {
		d.pass.stored.Add(int64(len(data)))
	}
	return err
}

// save makes a complete and valid checkpoint the new checkout.
func (d *Desk) save(ctx context.Context, m *nats.Msg) wire.Payload {
	_, e, err := d.readCheckpoint(m)
	if err != nil {
		d.Unreadable(d.worker, err, m)
		return wire.CheckpointAnswer{Refused: wire.RefusedMalformed, Detail: wire.Reason(err).Error()}
	}
	missing, err := d.take(ctx, e)
	if err == nil && e.TooMuch != "" {
		err = refuse(wire.RefusedTooMuch, "%.1000s", e.TooMuch) // the worker has signed this text
	}
	if err == nil {
		return wire.CheckpointAnswer{Saved: len(missing) == 0, Missing: missing}
	}
	r := d.said(err)
	if r.why == wire.RefusedTooMuch || r.why == wire.RefusedMalformed {
		d.note(ctx, r)
	}
	return wire.CheckpointAnswer{Refused: r.why, Detail: r.text}
}

// note records why a checkpoint was refused, for the verdict on the attempt.
func (d *Desk) note(ctx context.Context, r *refusal) {
	_, err := d.store.change(ctx, func(s *State, _ bool) error {
		if s.Open == nil || s.Open.Worker != d.worker {
			return ErrClosed
		}
		s.Refused = &Refusal{Worker: d.worker, Why: r.why, Text: r.text, At: time.Now().UTC()}
		return nil
	})
	if err != nil {
		d.Shelf.o.Log.Debug("could not store the reason for refusing a checkpoint",
			zap.String("worker", d.worker), zap.Error(err))
	}
}

// readCheckpoint decodes a checkpoint and checks that the worker signed it. Every error is a *wire.Malformed.
func (d *Desk) readCheckpoint(m *nats.Msg) (wire.Envelope, *wire.Checkpoint, error) {
	if err := wire.CheckSize(m.Data); err != nil {
		return wire.Envelope{}, nil, err
	}
	e, err := wire.Decode(m.Data)
	if err == nil {
		err = wire.CheckCheckpoint(e, d.Key(d.worker), d.worker)
	}
	if err != nil {
		return e, nil, err
	}
	return e, e.Payload.(*wire.Checkpoint), nil // CheckCheckpoint has checked the type
}

// take makes a checkpoint the current checkout if all its chunks are stored. Otherwise it returns the missing chunks.
func (d *Desk) take(ctx context.Context, c *wire.Checkpoint) (missing []string, err error) {
	if err := d.begin(ctx); err != nil {
		return nil, err
	}
	var root checkpoint.Digest
	if err := root.UnmarshalText([]byte(c.Manifest)); err != nil {
		return nil, err
	}
	if !d.open.Writes {
		return nil, ErrClosed
	}
	if c.TooMuch != "" {
		return nil, nil
	}
	m, lost, err := d.load(ctx, root)
	if err != nil || len(lost) > 0 {
		return lost, err
	}
	if err := errors.Join(m.Tree.Check(d.Rules.Limits), d.withinQuota(m.Tree)); err != nil {
		return nil, err
	}
	if err := d.Shelf.o.Leads.MayChange(); err != nil {
		return nil, err
	}
	changed := false
	s, err := d.store.change(ctx, func(s *State, _ bool) error {
		if s.Open == nil || s.Open.Worker != d.worker || !s.Open.Writes || d.pass.sealed.Load() {
			return ErrClosed
		}
		if changed = s.Manifest != root; changed {
			s.Before = s.Manifest
		}
		s.N, s.Manifest, s.Attempt, s.At, s.Refused = s.N+1, root, d.worker, time.Now().UTC(), nil
		return nil
	})
	if err == nil {
		d.Shelf.o.Log.Debug("checkpoint", zap.String("worker", d.worker), zap.Int("files", len(m.Tree.Entries)),
			zap.Int64("bytes", m.Tree.Bytes()), zap.Bool("changed", changed))
	}
	if err == nil && changed {
		s.Open = &Opened{Start: root} // so that forget can remove the initial checkout, which is no longer needed
		d.store.forget(ctx, s)
	}
	return nil, err
}

// load reads a manifest and checks that all its chunks are stored. If chunks are missing, it returns their names. The
// bytes that it reads count towards the worker's rate limit.
func (d *Desk) load(ctx context.Context, root checkpoint.Digest) (*checkpoint.Manifest, []string, error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	var missing []string
	fetch := func(name checkpoint.Digest) ([]byte, error) {
		if !d.store.Has(name) {
			missing = append(missing, name.String())
			return nil, ErrNoChunk
		}
		data, err := d.store.Chunk(ctx, name)
		if errors.Is(err, ErrNoChunk) { // the server has lost the manifest
			delete(d.store.stored, name)
			missing = append(missing, name.String())
		}
		if err == nil {
			err = d.pace.WaitN(ctx, perManifestByte*len(data))
		}
		return data, err
	}
	m, err := checkpoint.Load(root, d.Rules.Limits, fetch)
	if errors.Is(err, ErrNoChunk) {
		return nil, missing, nil
	}
	if err != nil {
		return nil, nil, err
	}
	read := func(n int) error { return d.pace.WaitN(ctx, n) }
	if missing, err = d.store.holds(ctx, m.Chunks, read); err != nil {
		return nil, nil, err
	}
	slices.Sort(missing)
	return m, missing[:min(len(missing), mostMissing)], nil
}

// withinQuota estimates the disk usage of the files, and returns a *checkpoint.Exceeded if it exceeds the quota.
func (d *Desk) withinQuota(t *checkpoint.Tree) error {
	const block = 4 << 10
	var used int64
	for i := range t.Entries {
		used += block // directory entry and inode
		for _, p := range t.Entries[i].Parts {
			if p.Chunk != (checkpoint.Digest{}) {
				used += (p.Len + block - 1) / block * block
			}
		}
	}
	if d.Rules.Quota > 0 && used > d.Rules.Quota {
		return &checkpoint.Exceeded{Text: fmt.Sprintf("its quota is used up: %d of %d bytes (checkout.quota)", used,
			d.Rules.Quota)}
	}
	return nil
}
