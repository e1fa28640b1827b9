// Package feed reads journals and passes their batches, decoded and in order, to a consumer.
//
// Every reader of batches uses Batches: a restarting director, the projections that a director fills from its journal,
// and the commands that read a journal without a director. Several goroutines decode batches, but Batches calls take
// only on the caller's goroutine, so a projection does not need a lock.
package feed

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"retake/internal/bus"
	"retake/internal/bus/chain"
	"retake/internal/fsm"
)

// Source reads a whole journal, both its archived and its live part.
type Source interface {
	Begin(ctx context.Context) (bus.Head, error)
	Records(ctx context.Context, after bus.Head, fn func(chain.Record) error) (bus.Head, error)
}

var _ Source = (*bus.Journal)(nil)

// ErrEnough stops reading. If a Take returns it, the function that called the Take returns nil.
var ErrEnough = errors.New("feed: read enough")

// ErrUndecoded reports a batch with facts that this version does not know.
var ErrUndecoded = errors.New("feed: decode batch")

// Read passes encoded batches to fn. It returns after the last batch, when fn fails, or when ctx is done.
type Read func(ctx context.Context, fn func(seq uint64, data []byte) error) error

// Take processes the records of the batch at seq.
type Take func(seq uint64, records []fsm.Record) error

// Journal calls take for each batch of a journal.
func Journal(ctx context.Context, j Source, take Take) error {
	begin, err := j.Begin(ctx)
	if err != nil {
		return err
	}
	return After(ctx, j, begin, take)
}

// After calls take for every batch after the given head.
func After(ctx context.Context, j Source, after bus.Head, take Take) error {
	return Batches(ctx, func(ctx context.Context, fn func(uint64, []byte) error) error {
		_, err := j.Records(ctx, after, func(r chain.Record) error { return fn(r.Seq, r.Data) })
		return err
	}, take)
}

// Export passes the batches of a file written by `director journal export` to take.
func Export(file string, take Take) error {
	return Batches(context.Background(), func(_ context.Context, fn func(uint64, []byte) error) error {
		_, err := chain.Read(file, func(r chain.Record) error { return fn(r.Seq, r.Data) }, nil)
		return err
	}, take)
}

// Limits on the data waiting in memory. A lane has at most 2×laneRoom+2 parcels. A parcel is complete once it has
// parcelBytes, so it can exceed this size by one batch.
const (
	parcelBytes = 64 << 10
	laneRoom    = 2
)

// parcel is a group of consecutive batches.
type parcel []parcelled

type parcelled struct {
	seq     uint64
	data    []byte
	records []fsm.Record // set after decoding
	err     error        // why decoding failed, or nil
}

// lane decodes one parcel at a time.
type lane struct{ stored, decoded chan parcel }

func (l *lane) run(ctx context.Context) {
	defer close(l.decoded)
	var reader fsm.BatchReader
	for p := range l.stored {
		for i := range p {
			one := &p[i]
			if one.records, one.err = reader.Read(one.data); one.err != nil {
				one.err = fmt.Errorf("%w at %d: %w", ErrUndecoded, one.seq, one.err)
			}
		}
		select {
		case l.decoded <- p:
		case <-ctx.Done():
			return
		}
	}
}

// Batches calls take for each batch of read, in order, on the caller's goroutine. At the same time, it reads and
// decodes a limited number of later batches:
//
//	read ──parcels, in turn──▶ a lane for each processor ──in the same order──▶ take, on the caller's goroutine
//
// If read fails, Batches first passes on all earlier batches. If take or decoding fails, Batches returns at once.
func Batches(ctx context.Context, read Read, take Take) error {
	ctx, cancel := context.WithCancel(ctx)
	var working sync.WaitGroup
	defer working.Wait()
	defer cancel()
	lanes := make([]lane, runtime.GOMAXPROCS(0))
	for i := range lanes {
		l := &lanes[i]
		*l = lane{stored: make(chan parcel, laneRoom), decoded: make(chan parcel, laneRoom)}
		working.Go(func() { l.run(ctx) })
	}
	ended := make(chan error, 1)
	working.Go(func() { ended <- fill(ctx, lanes, read) })
	for turn := 0; ; turn++ {
		p, ok := <-lanes[turn%len(lanes)].decoded
		if !ok {
			err := <-ended
			if err == nil { // the lanes may have ended early because ctx is done
				err = ctx.Err()
			}
			return err
		}
		for _, one := range p {
			err := one.err
			if err == nil {
				err = take(one.seq, one.records)
			}
			if errors.Is(err, ErrEnough) {
				return nil
			}
			if err != nil {
				return err
			}
		}
	}
}

// fill reads batches into the lanes, and closes the lanes at the end.
func fill(ctx context.Context, lanes []lane, read Read) error {
	var p parcel
	bytes, turn := 0, 0
	send := func() error {
		select {
		case lanes[turn%len(lanes)].stored <- p:
			p, bytes, turn = nil, 0, turn+1
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	err := read(ctx, func(seq uint64, data []byte) error {
		p = append(p, parcelled{seq: seq, data: data})
		if bytes += len(data); bytes < parcelBytes {
			return nil
		}
		return send()
	})
	if len(p) > 0 {
		if late := send(); err == nil {
			err = late
		}
	}
	for _, l := range lanes {
		close(l.stored)
	}
	return err
}
