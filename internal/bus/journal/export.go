package journal

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"retake/internal/bus/chain"
	"retake/internal/bus/link"
)

// Export writes the journal to a file: all batches, archived and live, and the newest readable snapshot. If the journal
// is damaged, Export returns a *chain.Damage with the location and does not write the file. If another director moves
// batches to its own archive during the export, this process cannot read them, and Export starts again.
func (j *Journal) Export(ctx context.Context, file string) (end chain.Trailer, err error) {
	for range exportTries {
		if end, err = j.export(ctx, file); !errors.Is(err, errLeft) {
			break
		}
	}
	return end, err
}

// exportTries is the maximum number of times that Export starts. A director archives at least a thousand batches or a
// day's batches at a time, so more than one restart is unlikely.
const exportTries = 3

func (j *Journal) export(ctx context.Context, file string) (chain.Trailer, error) {
	begin, err := j.Begin(ctx)
	if err != nil {
		return chain.Trailer{}, err
	}
	var end chain.Trailer
	err = chain.Create(file, j.position.source(), begin, func(w *chain.Writer) error {
		head, err := j.Records(ctx, begin, w.Add)
		if err != nil {
			return err
		}
		end = chain.Trailer{Head: head, Batches: head.Seq - begin.Seq}
		if err := j.ended(ctx, head.Seq, 0); err != nil {
			return err
		}
		all, err := j.snapshots.list(ctx)
		if err != nil {
			return err
		}
		for _, seq := range all {
			at, state, err := j.snapshots.get(ctx, seq)
			if err == nil && at.Seq <= head.Seq {
				return w.State(chain.State{Head: at, Data: state})
			}
			if link.Outage(err) {
				return fmt.Errorf("snapshot %d: %w", seq, err)
			}
		}
		return nil
	})
	if err != nil {
		return chain.Trailer{}, fmt.Errorf("journal: export: %w", err)
	}
	return end, nil
}

// Import restores an exported journal and its snapshot into an empty journal. The batches keep their sequences. Import
// reads the whole file before it writes anything. An interrupted import is detected as damage (chain.Cut).
func (j *Journal) Import(ctx context.Context, file string) (chain.Trailer, error) {
	switch _, last, err := j.live.bounds(ctx); {
	case err != nil:
		return chain.Trailer{}, err
	case last > 0 || j.position.mark().Head.Seq > 0:
		return chain.Trailer{}, ErrNotEmpty
	}
	var state *chain.State
	read, err := chain.Read(file, nil, func(s chain.State) error { state = &s; return nil })
	switch {
	case err != nil:
	case read.Header.Fleet != j.site.Fleet:
		err = fmt.Errorf("the file belongs to fleet %s, but director.fleet is %s", read.Header.Fleet, j.site.Fleet)
	case read.Header.First > 1 && state == nil:
		err = fmt.Errorf("the file begins at batch %d without a snapshot, so the earlier state is unknown",
			read.Header.First)
	default:
		err = j.fill(ctx, file, read)
	}
	if err != nil {
		return chain.Trailer{}, fmt.Errorf("journal: import: %w", err)
	}
	if state != nil {
		if err := j.SaveSnapshot(ctx, state.Head, state.Data); err != nil {
			return chain.Trailer{}, err
		}
	}
	return read.Trailer, nil
}

// fill copies the batches of a file into the stream. Until all batches are stored, the stream and the mirror mark the
// import as incomplete.
func (j *Journal) fill(ctx context.Context, file string, read chain.File) error {
	begun := j.position.current()
	begun.until = read.Trailer.Head.Seq
	if err := j.startAt(ctx, begun, read.Trailer.Head); err != nil {
		return err
	}
	if first := read.Header.First; first > 1 { // set the next sequence of the empty stream
		if err := j.live.stream.Purge(ctx, jetstream.WithPurgeSequence(first)); err != nil {
			return err
		}
	}
	if _, err := chain.Read(file, func(r chain.Record) error { return j.restore(ctx, r) }, nil); err != nil {
		return err
	}
	return j.startAt(ctx, j.position.next(read.Header.Journal), read.Trailer.Head)
}

func (j *Journal) startAt(ctx context.Context, i identity, head chain.Head) error {
	if err := j.ensure(ctx, j.live.stream, i); err != nil {
		return err
	}
	return j.position.begin(head)
}

// restore writes a batch with its original id, header and sequence.
func (j *Journal) restore(ctx context.Context, r chain.Record) error {
	ctx, cancel := context.WithTimeout(ctx, link.ReadTimeout)
	defer cancel()
	m := &nats.Msg{Subject: j.site.Subject, Data: r.Data, Header: nats.Header{}}
	if r.Prev != "" {
		m.Header.Set(chain.HeaderPrev, r.Prev)
	}
	ack, err := j.site.JS.PublishMsg(ctx, m, jetstream.WithMsgID(r.ID), jetstream.WithExpectLastSequence(r.Seq-1))
	if err == nil && ack.Sequence != r.Seq {
		err = fmt.Errorf("the server stored it at sequence %d", ack.Sequence)
	}
	if err != nil {
		return fmt.Errorf("batch %d: %w", r.Seq, err)
	}
	return nil
}
