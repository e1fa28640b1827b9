package bus

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"retake/internal/bus/wire"
)

// consumerName is the director's durable consumer on the reports.
const consumerName = "director"

// Bounds of the streams. Reports and journal keep a season for questions asked later; dead letters are for whoever looks
// into them soon. The duplicate window covers a worker's spool after a short outage; beyond it the director's own dedupe
// holds.
const (
	reportsAge       = 30 * 24 * time.Hour
	reportsBytes     = 1 << 30
	reportsPerWorker = 1000 // per subject: one faulty worker must not push out the others' reports
	journalAge       = 90 * 24 * time.Hour
	journalBytes     = 4 << 30
	deadAge          = 14 * 24 * time.Hour
	deadBytes        = 64 << 20
	deadPerCause     = 1000
	duplicateWindow  = 10 * time.Minute
)

// streamName adds the fleet, so that several fleets can share a server. Streams of one server must not share subjects,
// either: each fleet there needs an agent_bus.prefix of its own.
func (o Options) streamName(base string) string {
	if o.Fleet == defaultFleet {
		return base
	}
	return base + "_" + o.Fleet
}

func (b *Bus) reportsStream() string { return b.options.streamName("RETAKE_REPORTS") }
func (b *Bus) journalStream() string { return b.options.streamName("RETAKE_JOURNAL") }
func (b *Bus) deadStream() string    { return b.options.streamName("RETAKE_DEAD") }
func (b *Bus) snapshotStore() string { return b.options.streamName("RETAKE_SNAPSHOTS") }

// streams describes every stream. Retention is by age and size, never work-queue: evidence outlives its reading.
func (b *Bus) streams() []jetstream.StreamConfig {
	s := b.subjects
	return []jetstream.StreamConfig{
		{
			Name: b.reportsStream(), Description: "worker reports",
			Subjects: []string{s.AllWorkers(wire.ChannelError), s.AllWorkers(wire.ChannelResult)},
			MaxAge:   reportsAge, MaxBytes: reportsBytes, MaxMsgsPerSubject: reportsPerWorker,
		},
		{
			Name: b.deadStream(), Description: "messages that could not be read",
			Subjects: []string{s.Dead("*")},
			MaxAge:   deadAge, MaxBytes: deadBytes, MaxMsgsPerSubject: deadPerCause,
		},
	}
}

func (b *Bus) journalConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: b.journalStream(), Description: "journal of the director: written by compare-and-set only",
		Subjects: []string{b.subjects.Journal()},
		MaxAge:   journalAge, MaxBytes: journalBytes, DenyDelete: true,
	}
}

// ensureStreams creates what is missing and leaves what is there as it was created, but for what may be changed.
func (b *Bus) ensureStreams(ctx context.Context) error {
	for _, c := range b.streams() {
		if _, err := b.ensureStream(ctx, b.reports, c); err != nil {
			return err
		}
	}
	stream, err := b.ensureStream(ctx, b.ownJS, b.journalConfig())
	if err != nil {
		return err
	}
	store, err := b.ownJS.CreateOrUpdateObjectStore(ctx, jetstream.ObjectStoreConfig{
		Bucket: b.snapshotStore(), Description: "snapshots of the director's state", Replicas: b.options.Replicas,
	})
	if err != nil {
		return fmt.Errorf("object store %s: %w", b.snapshotStore(), err)
	}
	b.journal = &Journal{js: b.ownJS, stream: stream, store: store, subject: b.subjects.Journal(), log: b.log}
	return nil
}

func (b *Bus) ensureStream(ctx context.Context, js jetstream.JetStream, c jetstream.StreamConfig) (jetstream.Stream, error) {
	c.Storage, c.Retention, c.Discard = jetstream.FileStorage, jetstream.LimitsPolicy, jetstream.DiscardOld
	c.Replicas, c.Duplicates = b.options.Replicas, duplicateWindow
	stream, err := js.CreateOrUpdateStream(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w: does the server have JetStream, room, and %d replica(s), and has no other fleet there the same agent_bus.prefix?", c.Name, err, b.options.Replicas)
	}
	return stream, nil
}
