package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/nats-io/nats.go/jetstream"

	"retake/internal/bus/chain"
	"retake/internal/bus/link"
)

// Replace begins a new, empty journal without snapshots. It first exports all readable parts of the old, possibly
// damaged journal to the file aside, which must not exist. It moves the archive to a directory next to that file. If
// Replace fails or is interrupted, call it again with a different file.
func (j *Journal) Replace(ctx context.Context, aside string) error {
	if err := j.replace(ctx, aside); err != nil {
		return fmt.Errorf("journal: replace: %w", err)
	}
	return j.position.begin(chain.Head{})
}

func (j *Journal) replace(ctx context.Context, aside string) error {
	if _, err := os.Lstat(aside); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s already exists: choose another file", aside)
	}
	if err := j.salvage(ctx, aside); err != nil {
		return err
	}
	setArchiveAside := func(context.Context) error { return j.position.setArchiveAside(aside + ".segments") }
	for _, remove := range []func(context.Context) error{
		setArchiveAside, j.site.removeStream, j.site.removeSnapshots,
	} {
		err := j.site.Leads.MayChange()
		if err == nil {
			err = j.site.isReplaced(ctx, j.position.current().id)
		}
		if err == nil {
			err = remove(ctx)
		}
		if err != nil {
			return err
		}
	}
	return j.ensure(ctx, nil, j.position.next(""))
}

// ensure creates or updates the journal's stream, and records its identity.
func (j *Journal) ensure(ctx context.Context, there jetstream.Stream, i identity) error {
	_, _, err := j.site.ensure(ctx, there, i)
	if err == nil {
		j.position.become(i)
	}
	return err
}

// salvage writes all readable batches and snapshots to a file, even if batches between them are missing or do not
// match.
func (j *Journal) salvage(ctx context.Context, file string) error {
	first, last, err := j.live.bounds(ctx)
	if err != nil {
		return err
	}
	return chain.Salvage(file, j.position.source(), chain.Head{Seq: max(first, 1) - 1}, func(w *chain.Writer) error {
		for seq := max(first, 1); seq <= last; seq++ {
			r, err := j.live.record(ctx, seq)
			if errors.Is(err, chain.ErrDamaged) {
				continue
			}
			if err == nil {
				err = w.Add(r)
			}
			if err != nil {
				return err
			}
		}
		all, err := j.snapshots.list(ctx)
		if err != nil {
			return err
		}
		for _, seq := range all {
			at, state, err := j.snapshots.get(ctx, seq)
			if err == nil {
				err = w.State(chain.State{Head: at, Data: state})
			} else if !link.Outage(err) {
				err = nil // skip a damaged snapshot
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}
