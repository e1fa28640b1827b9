package bus

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"retake/internal/bus/journal"
	"retake/internal/bus/wire"
)

// consumerName is the name of the director's durable consumer of reports.
const consumerName = "director"

// Limits of the streams. Reports are kept for a season, to answer later questions. Dead letters are for prompt
// inspection. The duplicate window covers a worker's spool after a short outage. After longer outages, the
// director recognizes duplicates.
const (
	reportsAge       = 30 * 24 * time.Hour
	reportsBytes     = 1 << 30
	reportsPerWorker = 1000 // per subject, so that one faulty worker cannot displace the reports of others
	journalBytes     = 4 << 30
	deadAge          = 14 * 24 * time.Hour
	deadBytes        = 64 << 20
	deadPerCause     = 1000
	duplicateWindow  = 10 * time.Minute
)

// streamName adds the fleet, so that several fleets can share a server. Streams of one server must not share
// subjects either, so each fleet needs a different agent_bus.prefix.
func (o Options) streamName(base string) string {
	return base + o.suffix()
}

func (o Options) suffix() string {
	if o.Fleet == defaultFleet {
		return ""
	}
	return "_" + o.Fleet
}

func (b *Bus) reportsStream() string { return b.options.streamName("RETAKE_REPORTS") }
func (b *Bus) deadStream() string    { return b.options.streamName("RETAKE_DEAD") }
func (b *Bus) leaseBucket() string   { return b.options.streamName("RETAKE_LEASE") }

// streams describes every stream. Retention is by age and size, never work-queue, because reports are kept
// after reading.
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

// Ensure creates whatever the bus needs on its server and does not exist, such as after somebody deleted it on
// a joined server. A successful call replaces the Journal, and after an error the old one stays.
func (b *Bus) Ensure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, ensureTimeout)
	defer cancel()
	if err := b.ensure(ctx); err != nil {
		return fmt.Errorf("bus: %w", err)
	}
	return nil
}

// ensureTimeout bounds Ensure.
const ensureTimeout = 20 * time.Second

// ensure creates missing parts and leaves existing ones unchanged, except for settings that may be changed: the
// workers' credentials, the streams and the journal.
func (b *Bus) ensure(ctx context.Context) error {
	if err := b.workers.establish(ctx); err != nil {
		return err
	}
	for _, c := range b.streams() {
		if err := b.ensureStream(ctx, b.reports, c); err != nil {
			return err
		}
	}
	if err := b.ensureCheckouts(ctx); err != nil {
		return err
	}
	return b.openJournal(ctx)
}

// journalOptions describe the journal to package journal.
func (b *Bus) journalOptions() journal.Options {
	return journal.Options{
		JS: b.ownJS, Suffix: b.options.suffix(), Subject: b.subjects.Journal(), Fleet: b.options.Fleet,
		Archive: b.options.Archive, Mirror: b.options.Mirror, Bytes: b.options.JournalBytes,
		Replicas: b.options.Replicas, Shared: b.options.Server == nil, Leads: b.options.Leads, Log: b.log,
	}
}

// openJournal opens or creates the journal. The previous one stays if that fails.
func (b *Bus) openJournal(ctx context.Context) (err error) {
	var j *Journal
	if old := b.journal.Load(); old != nil {
		j, err = old.Reopen(ctx, b.journalOptions())
	} else {
		j, err = journal.Open(ctx, b.journalOptions())
	}
	if j != nil {
		b.journal.Store(j)
	}
	return err
}

func (b *Bus) ensureStream(ctx context.Context, js jetstream.JetStream, c jetstream.StreamConfig) error {
	c = b.onDisk(c)
	_, err := js.CreateOrUpdateStream(ctx, c)
	return b.noStream(c, err)
}

// onDisk sets the properties common to all streams.
func (b *Bus) onDisk(c jetstream.StreamConfig) jetstream.StreamConfig {
	c.Storage, c.Retention = jetstream.FileStorage, jetstream.LimitsPolicy
	c.Replicas, c.Duplicates = b.options.Replicas, duplicateWindow
	return c
}

// noStream explains why a stream may not be creatable.
func (b *Bus) noStream(c jetstream.StreamConfig, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("stream %s: %w: does the server have JetStream, room, and %d replica(s), and has no other "+
		"fleet there the same agent_bus.prefix?", c.Name, err, b.options.Replicas)
}
