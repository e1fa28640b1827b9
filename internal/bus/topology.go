package bus

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"retake/internal/bus/checkouts"
	"retake/internal/bus/journal"
	"retake/internal/bus/leadership"
	"retake/internal/bus/link"
	"retake/internal/bus/wire"
)

// consumerName is the name of the director's durable report consumer.
const consumerName = "director"

// Limits on the streams. Reports are kept long enough to answer later questions about an attempt, and dead letters for
// a shorter time. Within the duplicate window, the streams reject duplicates of reports that a worker sends from its
// spool after an outage. After a longer outage, the director itself recognizes duplicates.
const (
	reportsAge       = 30 * 24 * time.Hour
	reportsBytes     = 1 << 30
	reportsPerWorker = 1000 // per subject, so that one faulty worker cannot displace other workers' reports
	journalBytes     = 4 << 30
	deadAge          = 14 * 24 * time.Hour
	deadBytes        = 64 << 20
	deadPerCause     = 1000
	duplicateWindow  = 10 * time.Minute
)

// streamName adds the fleet to a stream's name, so that several fleets can share a server. Streams on the same server
// must not have the same subjects, so each fleet also needs a different agent_bus.prefix.
func (o Options) streamName(base string) string {
	return base + o.suffix()
}

func (o Options) suffix() string {
	if o.Fleet == defaultFleet {
		return ""
	}
	return "_" + o.Fleet
}

// Streams in the reports account.
const (
	streamReports = "RETAKE_REPORTS"
	streamDead    = "RETAKE_DEAD"
)

// streams returns the configurations of the streams in the reports account. They are not work queues, because messages
// must stay after the director has read them.
func (b *Bus) streams() []jetstream.StreamConfig {
	s := b.subjects
	return []jetstream.StreamConfig{
		{
			Name: b.options.streamName(streamReports), Description: "worker reports",
			Subjects: []string{s.AllWorkers(wire.ChannelError), s.AllWorkers(wire.ChannelResult)},
			MaxAge:   reportsAge, MaxBytes: reportsBytes, MaxMsgsPerSubject: reportsPerWorker,
		},
		{
			Name: b.options.streamName(streamDead), Description: "messages that the director could not read",
			Subjects: []string{s.Dead("*")},
			MaxAge:   deadAge, MaxBytes: deadBytes, MaxMsgsPerSubject: deadPerCause,
		},
	}
}

// Ensure creates the bus's missing streams and stores, for example after they were deleted on a joined server. If it
// succeeds, Journal returns a new Journal. After an error, the old Journal stays in use.
func (b *Bus) Ensure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, ensureTimeout)
	defer cancel()
	if err := b.ensure(ctx); err != nil {
		return fmt.Errorf("bus: %w", err)
	}
	return nil
}

const (
	ensureTimeout  = 20 * time.Second // limit of Ensure
	startTimeout   = time.Minute      // limit of waitForServer
	startRetryWait = time.Second      // pause between retries in waitForServer
)

// ensureAtStart repeats ensure while the server starts or its cluster elects a leader.
func ensureAtStart(ctx context.Context, b *Bus) error { return waitForServer(ctx, b.log, b.ensure) }

// waitForServer repeats ask for up to startTimeout while the server starts or its cluster elects a leader. It returns
// any other error at once. ctx must not have a deadline, because a request with a lost answer would then wait until
// that deadline instead of the default timeout.
func waitForServer(ctx context.Context, log *zap.Logger, ask func(context.Context) error) error {
	tooLate := time.After(startTimeout)
	for {
		err := ask(ctx)
		if err == nil || !link.Temporary(err) && !link.Electing(err) {
			return err
		}
		log.Warn("bus not ready; retrying", zap.Error(err))
		select {
		case <-ctx.Done():
			return err
		case <-tooLate:
			return err
		case <-time.After(startRetryWait):
		}
	}
}

// ensure creates missing buckets, streams and stores, updates their settings, and opens the journal.
func (b *Bus) ensure(ctx context.Context) error {
	if err := b.workers.establish(ctx); err != nil {
		return err
	}
	for _, c := range b.streams() {
		c.Storage, c.Retention = jetstream.FileStorage, jetstream.LimitsPolicy
		c.Replicas, c.Duplicates = b.options.Replicas, duplicateWindow
		if _, err := b.reports.js.CreateOrUpdateStream(ctx, c); err != nil {
			return fmt.Errorf("stream %s: %w", c.Name, link.NotCreated(err, c.Replicas, link.SamePrefix))
		}
	}
	shelf, err := checkouts.New(ctx, checkouts.Options{
		JS: b.ownJS, Bucket: b.options.streamName("RETAKE_CHECKOUTS"), Replicas: b.options.Replicas,
		Leads: b.options.Leads, Pass: func(worker string) *checkouts.Pass { return b.intake.pass(worker) }, Log: b.log,
	})
	if err != nil {
		return err
	}
	b.checkouts.Store(shelf)
	return b.openJournal(ctx)
}

// NewLease opens the fleet's lease without acquiring it. It waits for a server that is starting.
func (b *Bus) NewLease(ctx context.Context, o LeaseOptions) (l *Lease, err error) {
	bucket := leadership.Bucket{JS: b.ownJS, Name: b.options.streamName("RETAKE_LEASE"), Replicas: b.options.Replicas}
	err = waitForServer(ctx, b.log, func(ctx context.Context) (err error) {
		l, err = leadership.New(ctx, bucket, o, b.log)
		return err
	})
	return l, err
}

func (b *Bus) journalOptions() journal.Options {
	return journal.Options{
		JS: b.ownJS, Suffix: b.options.suffix(), Subject: b.subjects.Journal(), Fleet: b.options.Fleet,
		Archive: b.options.Archive, Mirror: b.options.Mirror, Bytes: b.options.JournalBytes,
		Replicas: b.options.Replicas, Shared: b.options.Server == nil, Leads: b.options.Leads, Log: b.log,
	}
}

// openJournal opens or creates the journal. After an error, the previous Journal stays in use.
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
