package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"retake/internal/bus/link"
)

// duplicateWindow exceeds the total time of an append's retries, so the server stores the batch only once.
const duplicateWindow = 10 * time.Minute

func (o Options) stream() string    { return "RETAKE_JOURNAL" + o.Suffix }
func (o Options) snapshots() string { return "RETAKE_SNAPSHOTS" + o.Suffix }
func (o Options) rebuild() string   { return "RETAKE_REBUILD" + o.Suffix }

// site creates, updates and removes the stream and the stores of a journal.
type site struct{ Options }

// config limits only the size of the stream. A full stream rejects new batches and never drops old ones. Retire removes
// batches once they are in the archive.
func (s site) config() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: s.stream(), Description: "journal of the director, written only by compare-and-set",
		Subjects: []string{s.Subject},
		MaxBytes: s.Bytes, Discard: jetstream.DiscardNew, DenyDelete: true,
		Storage: jetstream.FileStorage, Retention: jetstream.LimitsPolicy,
		Replicas: s.Replicas, Duplicates: duplicateWindow,
	}
}

// findOrBegin opens the existing journal. If it is missing, findOrBegin recreates it with the known identity, or begins
// a new journal. If several directors do this at the same time, all get the same journal.
func (s site) findOrBegin(ctx context.Context, p *position) (jetstream.Stream, jetstream.ObjectStore, error) {
	for again := false; ; again = true {
		stream, there, err := s.find(ctx, p.known.Journal)
		var store jetstream.ObjectStore
		if err == nil {
			stream, store, err = s.ensure(ctx, stream, there)
		}
		if err == nil {
			p.become(there)
		}
		if again || !errors.Is(err, errBegun) {
			return stream, store, err
		}
	}
}

// find returns the stream, or nil if it does not exist, and the identity of the journal. A stream without an id gets
// the known id, or a new one.
func (s site) find(ctx context.Context, known string) (stream jetstream.Stream, i identity, err error) {
	stream, err = s.JS.Stream(ctx, s.stream())
	switch {
	case err == nil:
		i = identityIn(stream.CachedInfo().Config)
	case errors.Is(err, jetstream.ErrStreamNotFound):
		stream = nil
	default:
		return nil, i, fmt.Errorf("stream %s: %w", s.stream(), err)
	}
	if i.id == "" {
		i.id = cmp.Or(known, newID())
	}
	return stream, i, nil
}

// errBegun reports that the journal was missing when this process checked, but another process has created it since.
var errBegun = fmt.Errorf("journal: another director has created it: %w", ErrReplaced)

// ensure creates or updates the journal's stream and the store of its snapshots. The argument there is the existing
// stream, or nil. If the stream was missing and another process creates it first, ensure returns errBegun and leaves
// that stream unchanged. NATS does not support conditional updates, so ensure updates a stream only if its
// configuration differs. If the stream was replaced just before the update, ensure returns ErrReplaced. The update has
// then given the new stream the identity of the old journal, so other directors do not treat it as a replacement.
func (s site) ensure(ctx context.Context, there jetstream.Stream,
	i identity,
) (jetstream.Stream, jetstream.ObjectStore, error) {
	c := s.config()
	c.Metadata = i.metadata()
	stream, err := there, error(nil)
	switch {
	case there == nil:
		if stream, err = s.JS.CreateStream(ctx, c); errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return nil, nil, errBegun
		}
	case !hasConfig(there.CachedInfo().Config, c):
		if stream, err = s.JS.UpdateStream(ctx, c); err == nil &&
			!stream.CachedInfo().Created.Equal(there.CachedInfo().Created) {
			return nil, nil, ErrReplaced
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("stream %s: %w", c.Name, link.NotCreated(err, s.Replicas, link.SamePrefix))
	}
	store, err := s.JS.CreateOrUpdateObjectStore(ctx, jetstream.ObjectStoreConfig{
		Bucket: s.snapshots(), Description: "snapshots of the director's state", Replicas: s.Replicas,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("object store %s: %w", s.snapshots(), err)
	}
	return stream, store, nil
}

// hasConfig reports whether a stream already has all the required settings.
func hasConfig(has, c jetstream.StreamConfig) bool {
	should := has
	should.Description, should.Subjects, should.Discard, should.DenyDelete = c.Description, c.Subjects, c.Discard,
		c.DenyDelete
	should.Storage, should.Retention, should.Replicas, should.Duplicates = c.Storage, c.Retention, c.Replicas,
		c.Duplicates
	should.MaxBytes, should.MaxAge, should.MaxMsgs, should.MaxMsgsPerSubject = c.MaxBytes, 0, -1, -1
	return reflect.DeepEqual(should, has) && reflect.DeepEqual(identityIn(has), identityIn(c))
}

// isReplaced returns ErrReplaced if another journal has replaced the known one. A missing journal is not an error.
func (s site) isReplaced(ctx context.Context, known string) error {
	stream, err := s.JS.Stream(ctx, s.stream())
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return nil
	case err != nil:
		return err
	}
	if there := identityIn(stream.CachedInfo().Config).id; there != "" && there != known {
		return ErrReplaced
	}
	return nil
}

func (s site) removeStream(ctx context.Context) error {
	if err := s.JS.DeleteStream(ctx, s.stream()); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return err
	}
	return nil
}

func (s site) removeSnapshots(ctx context.Context) error {
	if err := s.JS.DeleteObjectStore(ctx, s.snapshots()); err != nil && !noStore(err) {
		return fmt.Errorf("snapshots: %w", err)
	}
	return nil
}

func noStore(err error) bool {
	return errors.Is(err, jetstream.ErrBucketNotFound) || errors.Is(err, jetstream.ErrStreamNotFound)
}
