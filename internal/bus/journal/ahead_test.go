package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"retake/internal/bus/chain"
	"retake/internal/patience"
)

// consumer records the requests of a consumer.
type consumer struct {
	jetstream.Consumer
	asked func(request int) error // called before each request; an error makes the request fail
	n     int
}

// consuming creates a real consumer that calls asked.
func consuming(ctx context.Context, s jetstream.Stream, c jetstream.ConsumerConfig,
	asked func(request int) error,
) (jetstream.Consumer, error) {
	real, err := s.CreateConsumer(ctx, c)
	return &consumer{Consumer: real, asked: asked}, err
}

func (c *consumer) Fetch(n int, o ...jetstream.FetchOpt) (jetstream.MessageBatch, error) {
	c.n++
	if err := c.asked(c.n); err != nil {
		return nil, err
	}
	return c.Consumer.Fetch(n, o...)
}

// watched records the consumers of a stream.
type watched struct {
	jetstream.Stream
	consume        func(ctx context.Context, c jetstream.ConsumerConfig) (jetstream.Consumer, error)
	consumers, got int // number of consumers created, and of batches requested individually
}

func (w *watched) CreateConsumer(ctx context.Context, c jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	w.consumers++
	if w.consume != nil {
		return w.consume(ctx, c)
	}
	return w.Stream.CreateConsumer(ctx, c)
}

func (w *watched) GetMsg(ctx context.Context, seq uint64, o ...jetstream.GetMsgOpt) (*jetstream.RawStreamMsg, error) {
	w.got++
	return w.Stream.GetMsg(ctx, seq, o...)
}

// longJournal appends batches of all sizes, more than two windows by number and by size.
func longJournal(t *testing.T, j *Journal) (batches uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(5, 6))
	for n := uint64(0); n < 2300; n++ {
		size := 1 + random.IntN(200)
		if n%40 == 0 {
			size = 1 + random.IntN(keysLongest)
		}
		if _, err := j.Append(ctxFor(t), fmt.Sprintf("w/%d", n+1), n, bytes.Repeat([]byte{byte(n)}, size)); err != nil {
			t.Fatal(err)
		}
	}
	return j.Head().Seq
}

// keysLongest is the length of the longest batch, since a message may have up to 1 MiB.
const keysLongest = 1 << 20

// allInOrder reads everything after a head, and fails unless it gets each batch once and in order.
func allInOrder(t *testing.T, j *Journal, after chain.Head, also func(chain.Record) error) (chain.Head, error) {
	t.Helper()
	next := after.Seq
	return j.Records(ctxFor(t), after, func(r chain.Record) error {
		if next++; r.Seq != next {
			t.Errorf("batch %d comes when %d is due", r.Seq, next)
		}
		return also(r)
	})
}

// Prefetching gives the same batches as individual requests.
func TestReadAheadIsWhatIsThere(t *testing.T) {
	t.Parallel()
	j := begun(t)
	last := longJournal(t, j.Journal)
	w := &watched{Stream: j.live.stream}
	j.live.stream = w
	var at chain.Head
	head, err := allInOrder(t, j.Journal, chain.Head{}, func(r chain.Record) error {
		at = at.Next(r.ID, r.Data)
		if r.Seq%50 != 0 {
			return nil
		}
		one, err := w.Stream.GetMsg(ctxFor(t), r.Seq)
		if err == nil && (r.ID != one.Header.Get(jetstream.MsgIDHeader) || r.Prev != one.Header.Get(chain.HeaderPrev) ||
			r.At != one.Time || !bytes.Equal(r.Data, one.Data)) {
			t.Errorf("batch %d differs", r.Seq)
		}
		return err
	})
	if err != nil || head != j.Head() || head != at {
		t.Errorf("read to %v, %v; want %v", head, err, j.Head())
	}
	if late := int(last) / 20; w.consumers == 0 || w.got > late { // on a busy machine, a few batches arrive late
		t.Errorf("%d consumers, and %d batches requested individually; want at most %d", w.consumers, w.got, late)
	}
	began := w.consumers
	// if only a few batches are left, they are requested individually
	from, err := j.live.before(ctxFor(t), last-aheadFrom+2)
	if err == nil {
		head, err = allInOrder(t, j.Journal, from, func(chain.Record) error { return nil })
	}
	if err != nil || head != j.Head() || w.consumers != began {
		t.Errorf("the last few: to %v, %v, %d consumers", head, err, w.consumers-began)
	}
}

// Each batch is handed out once and in order, even if prefetching is disturbed. The consumer is gone afterwards.
func TestReadAheadIsAHint(t *testing.T) {
	t.Parallel()
	j := begun(t)
	last := longJournal(t, j.Journal)
	stream := j.live.stream
	for name, c := range map[string]struct {
		consume func(ctx context.Context, c jetstream.ConsumerConfig) (jetstream.Consumer, error)
		most    int // maximum number of consumers
	}{
		"no consumer is made": {func(context.Context, jetstream.ConsumerConfig) (jetstream.Consumer,
			error,
		) {
			return nil, errNoRoom
		}, aheadTries},
		"no request is answered": {func(ctx context.Context, c jetstream.ConsumerConfig) (jetstream.Consumer, error) {
			return consuming(ctx, stream, c, func(int) error { return errNoRoom })
		}, aheadTries},
		"each second request is refused": {func(ctx context.Context, c jetstream.ConsumerConfig) (jetstream.Consumer,
			error,
		) {
			return consuming(ctx, stream, c, func(n int) error {
				if n%2 == 0 {
					return errNoRoom
				}
				return nil
			})
		}, 200},
		"the consumer is forgotten": {func(ctx context.Context, c jetstream.ConsumerConfig) (jetstream.Consumer,
			error,
		) {
			made, err := stream.CreateConsumer(ctx, c)
			return &consumer{Consumer: made, asked: func(n int) error {
				if n == 2 {
					return stream.DeleteConsumer(ctx, made.CachedInfo().Name)
				}
				return nil
			}}, err
		}, 200},
		"skipped batches": {func(ctx context.Context, c jetstream.ConsumerConfig) (jetstream.Consumer, error) {
			made, err := consuming(ctx, stream, c, func(int) error { return nil })
			return leavesOut{made}, err
		}, 1},
	} {
		w := &watched{Stream: stream, consume: c.consume}
		j.live.stream = w
		n := uint64(0)
		head, err := allInOrder(t, j.Journal, chain.Head{}, func(chain.Record) error { n++; return nil })
		if err != nil || head != j.Head() || n != last || w.consumers > c.most || w.consumers == 0 {
			t.Errorf("%s: %d batches to %v, %v; %d consumers", name, n, head, err, w.consumers)
		}
		noConsumer(t, stream, name)
	}
}

// leavesOut loses every seventh message.
type leavesOut struct{ jetstream.Consumer }

type fewer struct {
	jetstream.MessageBatch
	messages chan jetstream.Msg
}

func (f fewer) Messages() <-chan jetstream.Msg { return f.messages }

func (l leavesOut) Fetch(n int, o ...jetstream.FetchOpt) (jetstream.MessageBatch, error) {
	all, err := l.Consumer.Fetch(n, o...)
	if err != nil {
		return nil, err
	}
	some := fewer{all, make(chan jetstream.Msg, n)}
	for m := range all.Messages() {
		if meta, err := m.Metadata(); err == nil && meta.Sequence.Stream%7 != 0 {
			some.messages <- m
		}
	}
	close(some.messages)
	return some, nil
}

func noConsumer(t *testing.T, s jetstream.Stream, name string) {
	t.Helper()
	for n := range s.ListConsumers(ctxFor(t)).Info() {
		t.Errorf("%s: there is a consumer afterwards: %s", name, n.Name)
	}
}

// If the callback fails or the context ends, reading stops at once and the consumer is removed.
func TestReadAheadEnds(t *testing.T) {
	t.Parallel()
	j, enough := begun(t), errors.New("enough")
	longJournal(t, j.Journal)
	for _, at := range []uint64{1, 2, 999, 1000, 1001} {
		head, err := allInOrder(t, j.Journal, chain.Head{}, func(r chain.Record) error {
			if r.Seq == at {
				return enough
			}
			return nil
		})
		if !errors.Is(err, enough) || head.Seq != at { // the batch that follows was not passed on
			t.Errorf("at %d: %v, %v", at, head, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		n := uint64(0)
		_, err = j.Records(ctx, chain.Head{}, func(r chain.Record) error {
			if n = r.Seq; n == at {
				cancel()
			}
			return nil
		})
		if n < j.Head().Seq && !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled at %d: %d batches, %v", at, n, err)
		}
		noConsumer(t, j.live.stream, fmt.Sprint("ended at ", at))
	}
	if len(j.live.aheads) > 0 {
		t.Error("a request is still under way")
	}
}

// Many concurrent readers, slow or fast, must not make the journal's connection a slow consumer, because appends share
// it.
func TestManyReadAhead(t *testing.T) {
	t.Parallel()
	s, err := start(t.TempDir())
	mustDo(t, err)
	defer func() { mustDo(t, s.stop()) }()
	j := openAs(t, options(t, s.js))
	ctx, cancel := context.WithTimeout(t.Context(), patience.For(time.Minute))
	defer cancel()
	for n := range uint64(250) { // 60 MiB
		if _, err := j.Append(ctx, fmt.Sprintf("w/%d", n+1), n, make([]byte, 250<<10)); err != nil {
			t.Fatal(err)
		}
	}
	var readers sync.WaitGroup
	var slow atomic.Int64
	for i := range 16 {
		readers.Go(func() {
			_, err := j.Records(ctx, chain.Head{}, func(r chain.Record) error {
				if i == 0 && r.Seq%20 == 0 {
					time.Sleep(20 * time.Millisecond)
					slow.Add(1)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	var took []time.Duration
	for n := uint64(250); n < 300; n++ {
		began := time.Now()
		if _, err := j.Append(ctx, fmt.Sprintf("w/%d", n+1), n, []byte("beside")); err != nil {
			t.Error(err)
		}
		took = append(took, time.Since(began))
	}
	readers.Wait()
	if n := s.nc.Stats().Reconnects; n > 0 || slow.Load() == 0 {
		t.Errorf("the connection was lost %d times", n)
	}
	t.Logf("an append took %s at most", slices.Max(took))
}
