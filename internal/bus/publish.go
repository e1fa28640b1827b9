package bus

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"retake/internal/bus/wire"
)

// Report stores the report that a worker did not write: its container ended, and the director tells how. It goes the
// way of every report. The same one twice is stored once, within the stream's duplicate window. Tails are cut to fit.
func (b *Bus) Report(ctx context.Context, worker string, e wire.WorkerError) error {
	if err := wire.CheckID(worker); err != nil {
		return err
	}
	from := wire.Sender{Role: wire.RoleDirector, ID: b.options.Fleet, RunID: b.options.RunID}
	data, err := wire.EncodeWithin(from, b.seq.Add(1), time.Now(), e, b.options.MaxMessageBytes)
	if err != nil {
		return err
	}
	_, err = b.js.Publish(ctx, b.subjects.Worker(worker, wire.ChannelError), data, jetstream.WithMsgID(worker+"/"+e.ErrorID))
	if err != nil {
		return noAnswer(err)
	}
	return nil
}
