package director

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

// batches is a journal for who reads all of it, archived and live.
type batches interface {
	Begin(ctx context.Context) (bus.Head, error)
	Records(ctx context.Context, after bus.Head, fn func(chain.Record) error) (bus.Head, error)
}

var _ batches = (*bus.Journal)(nil)

// errEnough ends a reading without an error.
var errEnough = errors.New("enough is read")

// errUndecoded: a batch is not of the facts that this version knows.
var errUndecoded = errors.New("director: journal")

// takeBatch takes the records of the batch at a sequence. errEnough ends the reading before it.
type takeBatch func(seq uint64, records []fsm.Record) error

// readJournal hands out every batch that a journal has.
func readJournal(ctx context.Context, j batches, take takeBatch) error {
	begin, err := j.Begin(ctx)
	if err != nil {
		return err
	}
	return readBehind(ctx, j, begin, take)
}

// readBehind hands out the batches behind a head.
func readBehind(ctx context.Context, j batches, after bus.Head, take takeBatch) error {
	return decode(ctx, func(ctx context.Context, fn func(uint64, []byte) error) error {
		_, err := j.Records(ctx, after, func(r chain.Record) error { return fn(r.Seq, r.Data) })
		return err
	}, take)
}

// readExport hands out the batches of a file that `director journal export` wrote.
func readExport(file string, take takeBatch) error {
	return decode(context.Background(), func(_ context.Context, fn func(uint64, []byte) error) error {
		_, err := chain.Read(file, func(r chain.Record) error { return fn(r.Seq, r.Data) }, nil)
		return err
	}, take)
}

// Bounds of what is decoded at a time: a lane has at most 2×laneRoom+2 parcels, and a parcel this many bytes
// and one batch.
const (
	parcelBytes = 64 << 10
	laneRoom    = 2
)

// parcel is some batches that follow one another.
type parcel []parcelled

type parcelled struct {
	seq     uint64
	data    []byte
	records []fsm.Record // once it is decoded
	err     error        // or why it cannot be
}

// lane decodes one parcel after the other.
type lane struct{ stored, decoded chan parcel }

func (l *lane) run(ctx context.Context) {
	defer close(l.decoded)
	var reader fsm.BatchReader
	for p := range l.stored {
		for i := range p {
			one := &p[i]
			if one.records, one.err = reader.Read(one.data); one.err != nil {
				one.err = fmt.Errorf("%w at %d: %w", errUndecoded, one.seq, one.err)
			}
		}
		select {
		case l.decoded <- p:
		case <-ctx.Done():
			return
		}
	}
}

// decode has take take the batches that read hands out, one after the other in their order, while those behind
// them are read and decoded:
//
//	read ──parcels, in turn──▶ a lane for each processor ──in the same turn──▶ take, on the caller's goroutine
//
// An error of read is returned when all that it has handed out was taken; one of take, or of a batch that
// cannot be decoded, at once.
func decode(ctx context.Context, read func(ctx context.Context, fn func(seq uint64, data []byte) error) error,
	take takeBatch,
) error {
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
			if err == nil { // unless lanes ended before they had handed out all
				err = ctx.Err()
			}
			return err
		}
		for _, one := range p {
			err := one.err
			if err == nil {
				err = take(one.seq, one.records)
			}
			if errors.Is(err, errEnough) {
				return nil
			}
			if err != nil {
				return err
			}
		}
	}
}

// fill reads batches into lanes, and closes them.
func fill(ctx context.Context, lanes []lane,
	read func(ctx context.Context, fn func(seq uint64, data []byte) error) error,
) error {
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
