package bus

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"retake/internal/bus/chain"
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
	if o.Fleet == defaultFleet {
		return base
	}
	return base + "_" + o.Fleet
}

func (b *Bus) reportsStream() string { return b.options.streamName("RETAKE_REPORTS") }
func (b *Bus) journalStream() string { return b.options.streamName("RETAKE_JOURNAL") }
func (b *Bus) deadStream() string    { return b.options.streamName("RETAKE_DEAD") }
func (b *Bus) leaseBucket() string   { return b.options.streamName("RETAKE_LEASE") }
func (b *Bus) snapshotStore() string { return b.options.streamName("RETAKE_SNAPSHOTS") }

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

// journalConfig sets no age limit, and rejects messages when the stream is full. A batch leaves the stream only
// when it is in the archive (Retire).
func (b *Bus) journalConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: b.journalStream(), Description: "journal of the director: written by compare-and-set only",
		Subjects: []string{b.subjects.Journal()},
		MaxBytes: b.options.JournalBytes, Discard: jetstream.DiscardNew, DenyDelete: true,
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

func (b *Bus) newJournal() *Journal {
	return &Journal{
		js: b.ownJS, subject: b.subjects.Journal(), fleet: b.options.Fleet, archive: b.options.Archive,
		shared: b.options.Server == nil, leads: b.options.Leads, log: b.log,
		aheads: make(chan struct{}, aheadAtOnce),
	}
}

// openJournal opens or creates the journal, and sets b.journal once it is complete.
func (b *Bus) openJournal(ctx context.Context) error {
	j, old := b.newJournal(), b.journal
	if b.options.Mirror != "" {
		var found bool
		var err error
		if j.mirror, j.known, found, err = chain.OpenMirror(b.options.Mirror, b.journalStream()); err != nil {
			return err
		}
		if !found {
			b.log.Info("nothing says yet how far the journal went", zap.String("file", b.options.Mirror))
		}
	}
	if old != nil && old.mark().Head.Seq > j.known.Head.Seq {
		j.known = old.mark()
	}
	err := b.findOrBegin(ctx, j)
	if err == nil {
		_, err = j.recognise(j.identity)
	}
	if err != nil {
		return errors.Join(err, j.close())
	}
	b.journal = j
	return old.close()
}

// findOrBegin opens the existing journal. If there is no journal, it restarts the known one or begins a new
// one. When several directors do so at the same time, they end up with a single journal.
func (b *Bus) findOrBegin(ctx context.Context, j *Journal) error {
	for again := false; ; again = true {
		stream, there, err := b.journalThere(ctx, j.known.Journal)
		if err == nil {
			err = b.ensureJournal(ctx, j, stream, there)
		}
		if again || !errors.Is(err, errBegun) {
			return err
		}
	}
}

// findJournal opens an existing journal for reading.
func (b *Bus) findJournal(ctx context.Context) (err error) {
	j := b.newJournal()
	j.readOnly = true
	if j.stream, err = b.ownJS.Stream(ctx, b.journalStream()); err != nil {
		return fmt.Errorf("stream %s: %w", b.journalStream(), err)
	}
	if j.store, err = b.ownJS.ObjectStore(ctx, b.snapshotStore()); err != nil {
		return fmt.Errorf("object store %s: %w", b.snapshotStore(), err)
	}
	if j.known, _, err = chain.ReadMirror(b.options.Mirror, b.journalStream()); err != nil {
		return err
	}
	if _, err := j.recognise(identityIn(j.stream.CachedInfo().Config)); err != nil {
		return err
	}
	b.journal = j
	return nil
}

// errBegun reports that a journal was missing when this process checked, and that another process has created
// one since.
var errBegun = fmt.Errorf("%w, which was begun just now", ErrReplaced)

// ensureJournal creates or updates the journal's stream and the store of its snapshots. there is the existing
// stream, or nil. If it is nil and another journal appears meanwhile, ensureJournal leaves that one alone and
// returns errBegun. The server updates streams without comparing, so a correct stream is not written.
// ErrReplaced means that the update hit another stream than the one that was found. That stream now has a wrong
// name, which nothing interprets as a replacement.
func (b *Bus) ensureJournal(ctx context.Context, j *Journal, there jetstream.Stream, i identity) error {
	c := b.onDisk(b.journalConfig())
	c.Metadata = i.metadata()
	stream, err := there, error(nil)
	switch {
	case there == nil:
		if stream, err = b.ownJS.CreateStream(ctx, c); errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return errBegun
		}
	case !hasConfig(there.CachedInfo().Config, c):
		if stream, err = b.ownJS.UpdateStream(ctx, c); err == nil &&
			!stream.CachedInfo().Created.Equal(there.CachedInfo().Created) {
			return ErrReplaced
		}
	}
	if err != nil {
		return b.noStream(c, err)
	}
	store, err := b.ownJS.CreateOrUpdateObjectStore(ctx, jetstream.ObjectStoreConfig{
		Bucket: b.snapshotStore(), Description: "snapshots of the director's state", Replicas: b.options.Replicas,
	})
	if err != nil {
		return fmt.Errorf("object store %s: %w", b.snapshotStore(), err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stream, j.store, j.identity = stream, store, i
	return nil
}

// hasConfig reports whether a journal's stream has the wanted configuration.
func hasConfig(has, c jetstream.StreamConfig) bool {
	should := has
	should.Description, should.Subjects, should.Discard, should.DenyDelete = c.Description, c.Subjects, c.Discard,
		c.DenyDelete
	should.Storage, should.Retention, should.Replicas, should.Duplicates = c.Storage, c.Retention, c.Replicas,
		c.Duplicates
	should.MaxBytes, should.MaxAge, should.MaxMsgs, should.MaxMsgsPerSubject = c.MaxBytes, 0, -1, -1
	return reflect.DeepEqual(should, has) && reflect.DeepEqual(identityIn(has), identityIn(c))
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
