package bus

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

var errUnwilling = errors.New("the server does not feel like it")

// unwilling is a JetStream that neither finds nor creates streams, or that creates no object stores.
type unwilling struct {
	jetstream.JetStream
	streams, stores bool // these it has
}

func (u unwilling) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	if !u.streams {
		return nil, errUnwilling
	}
	return u.JetStream.Stream(ctx, name)
}

func (u unwilling) CreateOrUpdateObjectStore(ctx context.Context,
	c jetstream.ObjectStoreConfig,
) (jetstream.ObjectStore, error) {
	if !u.stores {
		return nil, errUnwilling
	}
	return u.JetStream.CreateOrUpdateObjectStore(ctx, c)
}

// A bus whose streams could not be made sure of has the journal that it had: it can be read, written and saved from.
func TestAJournalIsOpenedWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*Bus){
		"no stream":    func(b *Bus) { b.ownJS = unwilling{JetStream: b.ownJS} },
		"no snapshots": func(b *Bus) { b.ownJS = unwilling{JetStream: b.ownJS, streams: true} },
		"no head":      func(b *Bus) { b.options.Mirror = filepath.Join(b.options.Mirror, "is no folder") },
	} {
		t.Run(name, func(t *testing.T) {
			core, logs := observer.New(zapcore.WarnLevel)
			b := openBus(t, Options{Mirror: filepath.Join(t.TempDir(), "journal.head"), Log: zap.New(core)})
			appendBatches(t, b.Journal(), 2)
			spoil(b)
			if err := b.Ensure(ctxFor(t)); err == nil {
				t.Fatal("nothing failed")
			}
			if head, err := b.Journal().Replay(ctxFor(t), Head{},
				func(uint64, []byte) error { return nil }); err != nil || head.Seq != 2 {
				t.Errorf("it cannot be read: %v, %v", head, err)
			}
			appendBatches(t, b.Journal(), 1)
			if err := b.Journal().SaveSnapshot(ctxFor(t), b.Journal().Head(), []byte("{}")); err != nil {
				t.Errorf("no snapshots: %v", err)
			}
			for _, l := range logs.All() {
				if strings.Contains(l.Message, "journal.head") {
					t.Errorf("%s %v", l.Message, l.ContextMap())
				}
			}
		})
	}
}
