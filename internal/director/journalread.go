package director

import (
	"context"
	"errors"
	"fmt"

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

// takeBatch takes the records of the batch at a sequence. errEnough ends the reading before it.
type takeBatch func(seq uint64, records []fsm.Record) error

// stored has it take a batch as it is stored.
func (take takeBatch) stored(r chain.Record) error {
	records, err := fsm.ReadBatch(r.Data)
	if err != nil {
		return fmt.Errorf("director: journal at %d: %w", r.Seq, err)
	}
	return take(r.Seq, records)
}

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
	_, err := j.Records(ctx, after, take.stored)
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// readExport hands out the batches of a file that `director journal export` wrote.
func readExport(file string, take takeBatch) error {
	_, err := chain.Read(file, take.stored, nil)
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}
