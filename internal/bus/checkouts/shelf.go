package checkouts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"retake/internal/bus/link"
	"retake/internal/checkpoint"
)

// Options configure the storage of checkouts.
type Options struct {
	JS       jetstream.JetStream
	Bucket   string
	Replicas int
	Leads    link.Leads                // reports whether this process alone may change the checkouts
	Pass     func(worker string) *Pass // returns the pass of an admitted worker, or nil
	Log      *zap.Logger
}

// Shelf stores the checkouts of all tasks. Its methods are safe for concurrent use.
type Shelf struct {
	o  Options
	kv jetstream.KeyValue
}

// New opens the bucket, and creates it if it is missing.
func New(ctx context.Context, o Options) (*Shelf, error) {
	kv, err := o.JS.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: o.Bucket, Description: "travelling checkouts: states and chunks, by task", History: 1,
		Replicas:     o.Replicas,
		MaxValueSize: checkpoint.ChunkBytes + 64<<10,
	})
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", o.Bucket, link.NotCreated(err, o.Replicas, ""))
	}
	return &Shelf{o, kv}, nil
}

// task returns a task's store without reading its state.
func (s *Shelf) task(task string) *Store { return &Store{shelf: s, kv: s.kv, task: task} }

// Open opens the store of a task, which may be empty.
func (s *Shelf) Open(ctx context.Context, task string) (*Store, error) {
	c := s.task(task)
	c.stored, c.sizes = map[checkpoint.Digest]bool{}, map[checkpoint.Digest]int64{}
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

// State returns the state of a task's checkout. ok is false if nothing is stored.
func (s *Shelf) State(ctx context.Context, task string) (State, bool, error) {
	return s.task(task).State(ctx)
}

// KeepRecord replaces the record of a task's stored checkout. It passes the stored record to over, and returns ErrOlder
// if over returns false. It does nothing if the task does not have a stored checkout.
func (s *Shelf) KeepRecord(ctx context.Context, task string, record json.RawMessage,
	over func(json.RawMessage) bool,
) error {
	c := s.task(task)
	if err := c.shelf.o.Leads.MayChange(); err != nil {
		return err
	}
	var short bytes.Buffer // compact, as json.Marshal stores it
	if err := json.Compact(&short, record); err != nil {
		return fmt.Errorf("checkouts: compact checkout record for %s: %w", task, err)
	}
	_, err := c.change(ctx, func(s *State, there bool) error {
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

// Close permanently ends an attempt's access to its task's checkout, and returns the final state. From then on, every
// director rejects writes, even if it does not know that it has lost the lease. After an error, more checkpoints can
// still arrive. A task without stored data is not an error.
func (s *Shelf) Close(ctx context.Context, task, worker string) (State, error) {
	s.o.Pass(worker).close()
	c := s.task(task)
	state, err := c.change(ctx, func(s *State, there bool) error {
		if !there || s.Open == nil || s.Open.Worker != worker {
			return errUnchanged
		}
		s.Open = nil
		return nil
	})
	if errors.Is(err, errUnchanged) {
		err = nil
	}
	return state, err
}

// Uploaded returns how many bytes of chunks a worker has sent since this process admitted it.
func (s *Shelf) Uploaded(worker string) int64 {
	if p := s.o.Pass(worker); p != nil {
		return p.stored.Load()
	}
	return 0
}

// Drop removes everything stored for a task.
func (s *Shelf) Drop(ctx context.Context, task string) error {
	c := s.task(task)
	if err := c.shelf.o.Leads.MayChange(); err != nil {
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

// Tasks lists the tasks with stored data.
func (s *Shelf) Tasks(ctx context.Context) ([]string, error) {
	c := s.task("*")
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
