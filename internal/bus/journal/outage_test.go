package journal

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"retake/internal/bus/chain"
)

// noLeader is the response of a cluster during an election.
var noLeader = &jetstream.APIError{Code: 503, ErrorCode: 10008, Description: "JetStream system temporarily unavailable"}

// sick is a stream that fails to return its batches for a while.
type sick struct {
	jetstream.Stream
	err   error
	times int // number of failures, unlimited if negative
}

func (s *sick) fails() bool {
	if s.times == 0 {
		return false
	}
	s.times--
	return true
}

func (s *sick) GetMsg(ctx context.Context, seq uint64, opts ...jetstream.GetMsgOpt) (*jetstream.RawStreamMsg, error) {
	if s.fails() {
		return nil, s.err
	}
	return s.Stream.GetMsg(ctx, seq, opts...)
}

// sickStore is an object store that fails to return its snapshots for a while.
type sickStore struct {
	jetstream.ObjectStore
	sick
}

func (s *sickStore) GetBytes(ctx context.Context, name string, opts ...jetstream.GetObjectOpt) ([]byte, error) {
	if s.fails() {
		return nil, s.err
	}
	return s.ObjectStore.GetBytes(ctx, name, opts...)
}

// outages are errors of a server that cannot answer. They do not mean that the journal is damaged.
var outages = map[string]error{
	"a cluster without a leader": noLeader, "no resources": errNoRoom, "a timeout": nats.ErrTimeout,
	"nobody there": nats.ErrNoResponders,
	"a deadline":   context.DeadlineExceeded,
}

func TestAnOutageIsNoDamage(t *testing.T) {
	t.Parallel()
	j := begun(t)
	j.more(3)
	mustDo(t, j.SaveSnapshot(ctxFor(t), j.Head(), []byte("{}")))
	stream, store := j.live.stream, j.snapshots.store
	for name, err := range outages {
		t.Run(name, func(t *testing.T) {
			defer func() { j.live.stream, j.snapshots.store = stream, store }()
			replay := func(ctx context.Context) (chain.Head, error) {
				return j.Replay(ctx, chain.Head{}, func(uint64, []byte) error { return nil })
			}
			j.live.stream, j.snapshots.store = &sick{stream, err, 2}, &sickStore{store, sick{err: err, times: 1}}
			if head, err := replay(ctxFor(t)); err != nil || head.Seq != 3 {
				t.Errorf("it is not read again: %v, %v", head, err)
			}
			if at, _, err := j.lastState(); err != nil || at.Seq != 3 {
				t.Errorf("the snapshot is not read again: %v, %v", at, err)
			}

			j.live.stream, j.snapshots.store = &sick{stream, err, -1}, &sickStore{store, sick{err: err, times: -1}}
			short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			if _, err := replay(short); err == nil || errors.Is(err, chain.ErrDamaged) {
				t.Errorf("a journal that cannot be read: %v", err)
			}
			if at, err := j.LoadSnapshot(short, func([]byte) error { return nil }); err == nil {
				t.Errorf("a snapshot that cannot be read is passed over: %v", at)
			}
			aside := filepath.Join(t.TempDir(), "aside.jsonl.zst")
			if err := j.Replace(short, aside); err == nil {
				t.Error("data that is temporarily unreadable is thrown away")
			}
			if _, err := os.Stat(aside); err == nil {
				t.Error("half a journal is set aside")
			}
		})
	}
	if head, err := j.Replay(ctxFor(t), chain.Head{}, func(uint64, []byte) error { return nil }); err != nil ||
		head.Seq != 3 {
		t.Errorf("afterwards: %v, %v", head, err)
	}
}

// A reader may request a batch while it is being archived. A server that is shutting down reports batches as
// missing.
func TestABatchThatIsMissedForAMomentIsNoDamage(t *testing.T) {
	j := begun(t)
	j.more(5)
	stream := j.live.stream
	read := func() (n int, err error) {
		_, err = j.Replay(ctxFor(t), chain.Head{}, func(uint64, []byte) error { n++; return nil })
		return n, err
	}
	j.live.stream = &sick{stream, jetstream.ErrMsgNotFound, 1}
	if n, err := read(); n != 5 || err != nil {
		t.Errorf("missed once: %d batches, %v", n, err)
	}
	j.live.stream = &purged{Stream: stream, t: t, to: 3}
	if n, err := read(); n != 0 || err == nil || errors.Is(err, chain.ErrDamaged) {
		t.Errorf("archived during the read: %d batches, %v", n, err)
	}
}

// purged is a stream that loses its beginning when it is read.
type purged struct {
	jetstream.Stream
	t  *testing.T
	to uint64
}

func (p *purged) GetMsg(ctx context.Context, seq uint64, opts ...jetstream.GetMsgOpt) (*jetstream.RawStreamMsg, error) {
	mustDo(p.t, p.Purge(ctx, jetstream.WithPurgeSequence(p.to+1)))
	return p.Stream.GetMsg(ctx, seq, opts...)
}
