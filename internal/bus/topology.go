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

// consumerName is the director's durable consumer on the reports.
const consumerName = "director"

// Bounds of the streams. Reports keep a season for questions asked later; dead letters are for whoever looks
// into them soon. The duplicate window covers a worker's spool after a short outage; beyond it the director's
// own dedupe holds.
const (
	reportsAge       = 30 * 24 * time.Hour
	reportsBytes     = 1 << 30
	reportsPerWorker = 1000 // per subject: one faulty worker must not push out the others' reports
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
func (b *Bus) leaseBucket() string   { return b.options.streamName("RETAKE_LEASE") }
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

// journalConfig has no age, and refuses what is too much: a batch leaves the stream when it is in the archive
// (Retire), never by itself.
func (b *Bus) journalConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: b.journalStream(), Description: "journal of the director: written by compare-and-set only",
		Subjects: []string{b.subjects.Journal()},
		MaxBytes: b.options.JournalBytes, Discard: jetstream.DiscardNew, DenyDelete: true,
	}
}

// Ensure makes what is missing of what a bus needs at its server: somebody may have taken it from one that was
// joined. Journal is another one then; after an error it is the one that it was.
func (b *Bus) Ensure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, ensureTimeout)
	defer cancel()
	if err := b.ensure(ctx); err != nil {
		return fmt.Errorf("bus: %w", err)
	}
	return nil
}

// ensureTimeout bounds that.
const ensureTimeout = 20 * time.Second

// ensure creates what is missing and leaves what is there as it was created, but for what may be changed:
// workers' credentials, streams, journal.
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

// openJournal opens the journal, or makes it. The bus has it when it is whole.
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

// findOrBegin opens the journal that is there. If none is, it begins the one that is known again, or a new one;
// another director may do so at the same moment, and then there is one.
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

// findJournal opens a journal that is there, for reading.
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

// errBegun: there was no journal at the last look, and somebody has begun one since.
var errBegun = fmt.Errorf("%w, which was begun just now", ErrReplaced)

// ensureJournal makes sure of the journal's stream and of the store of its snapshots. there is the stream that
// was found; nil: none was, and another one than what is made now is left alone (errBegun). The server compares
// nothing when a stream is changed, so one that is as it should be is not written to, and ErrReplaced says that
// the change met another stream than the one that was found: that one has a wrong name now, which tells nobody
// that it was replaced.
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

// hasConfig reports whether the stream of a journal is as it should be.
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

// onDisk is what all streams have in common.
func (b *Bus) onDisk(c jetstream.StreamConfig) jetstream.StreamConfig {
	c.Storage, c.Retention = jetstream.FileStorage, jetstream.LimitsPolicy
	c.Replicas, c.Duplicates = b.options.Replicas, duplicateWindow
	return c
}

// noStream says what may be the matter with a stream that cannot be made.
func (b *Bus) noStream(c jetstream.StreamConfig, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("stream %s: %w: does the server have JetStream, room, and %d replica(s), and has no other "+
		"fleet there the same agent_bus.prefix?", c.Name, err, b.options.Replicas)
}
