package journal

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

	"retake/internal/bus/chain"
)

var errUnwilling = errors.New("the server does not feel like it")

// unwilling is a JetStream that fails to find and create streams, or to create object stores.
type unwilling struct {
	jetstream.JetStream
	streams, stores bool // available
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

// TestReopenOpensWhollyOrNotAtAll checks that a journal stays usable if it could not be opened again.
func TestReopenOpensWhollyOrNotAtAll(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*Options){
		"no stream":    func(o *Options) { o.JS = unwilling{JetStream: o.JS} },
		"no snapshots": func(o *Options) { o.JS = unwilling{JetStream: o.JS, streams: true} },
		"no head":      func(o *Options) { o.Mirror = filepath.Join(o.Mirror, "is no folder") },
	} {
		t.Run(name, func(t *testing.T) {
			core, logs := observer.New(zapcore.WarnLevel)
			j := begun(t)
			j.o.Log = zap.New(core)
			j.reopen()
			j.more(2)
			spoilt := j.o
			spoil(&spoilt)
			if _, err := j.Reopen(ctxFor(t), spoilt); err == nil {
				t.Fatal("nothing failed")
			}
			j.mustRead(chain.Head{}, 2)
			j.more(1)
			if err := j.SaveSnapshot(ctxFor(t), j.Head(), []byte("{}")); err != nil {
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
