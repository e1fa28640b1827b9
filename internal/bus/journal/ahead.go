package journal

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"retake/internal/bus/chain"
	"retake/internal/bus/link"
)

// Limits on prefetching. The server disconnects a client that has too much unread data. Stay far below that limit,
// because appends use the same connection.
const (
	aheadFrom    = 16          // minimum number of batches to prefetch; fewer are requested one by one
	aheadBatches = 1000        // maximum number of batches per request
	aheadBytes   = 2 << 20     // maximum number of bytes per request
	aheadAtOnce  = 2           // maximum number of requests in progress by all readers of the journal
	aheadWait    = time.Second // longest wait for the next batch of a request
	aheadTries   = 3           // ahead gives up after this many consecutive consumers without a batch
)

// ahead prefetches live batches with an ephemeral consumer. If ahead does not deliver a batch in order, the caller
// requests that batch individually, and only the answer to this request can prove that the batch is missing. ahead
// holds the batches of at most three requests in memory.
type ahead struct {
	live *live
	last uint64 // last sequence to read

	windows chan []chain.Record // batches in order, closed when readWindows ends; nil while it is not running
	window  []chain.Record      // remaining batches of the last window received
	cancel  context.CancelFunc
	reading sync.WaitGroup
	given   bool // set if the current consumer has delivered a window
	barren  int  // number of consecutive consumers that did not deliver a window
}

// batch returns the batch at seq. If ok is false, the caller must request the batch individually.
func (a *ahead) batch(ctx context.Context, seq uint64) (r chain.Record, ok bool) {
	if a.windows == nil && a.last-seq+1 >= aheadFrom && a.barren < aheadTries {
		a.begin(ctx, seq)
	}
	for a.windows != nil {
		for len(a.window) > 0 && a.window[0].Seq < seq { // the caller has requested this batch individually
			a.window = a.window[1:]
		}
		if len(a.window) > 0 {
			r = a.window[0]
			return r, r.Seq == seq // otherwise a batch is missing
		}
		if a.window, ok = <-a.windows; !ok {
			a.end()
		}
		a.given = a.given || ok
	}
	return chain.Record{}, false
}

func (a *ahead) begin(ctx context.Context, next uint64) {
	ctx, a.cancel = context.WithCancel(ctx)
	windows := make(chan []chain.Record, 1)
	a.windows, a.given = windows, false
	a.reading.Go(func() {
		defer close(windows)
		a.live.readWindows(ctx, next, a.last, windows)
	})
}

// end stops the reading goroutine, if it is running, and waits for it to exit.
func (a *ahead) end() {
	if a.windows == nil {
		return
	}
	a.cancel()
	a.reading.Wait()
	a.windows, a.window = nil, nil
	if a.barren++; a.given {
		a.barren = 0
	}
}

// readWindows sends the live batches next through last to windows. It returns early after an error, or when ctx is
// done.
func (l *live) readWindows(ctx context.Context, next, last uint64, windows chan<- []chain.Record) {
	asked, cancel := context.WithTimeout(ctx, link.ReadTimeout)
	consumer, err := l.stream.CreateConsumer(asked, jetstream.ConsumerConfig{
		AckPolicy: jetstream.AckNonePolicy, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: next,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: time.Minute,
	})
	cancel()
	if err != nil {
		return
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), aheadWait)
		defer cancel()
		_ = l.stream.DeleteConsumer(ctx, consumer.CachedInfo().Name) // the server also removes idle consumers
	}()
	for next <= last {
		select {
		case l.aheads <- struct{}{}:
		case <-ctx.Done():
			return
		}
		window := readWindow(ctx, consumer, min(last-next+1, aheadBatches))
		<-l.aheads
		if len(window) == 0 {
			return
		}
		next = window[len(window)-1].Seq + 1
		select {
		case windows <- window:
		case <-ctx.Done():
			return
		}
	}
}

// readWindow requests at most n batches. It returns fewer if they are large or if an error occurs.
func readWindow(ctx context.Context, from jetstream.Consumer, n uint64) (window []chain.Record) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	late := time.AfterFunc(aheadWait, cancel)
	defer late.Stop()
	request, err := from.Fetch(int(n), jetstream.FetchMaxBytes(aheadBytes),
		jetstream.FetchContext(ctx)) //nolint:gosec // at most aheadBatches
	if err != nil {
		return nil
	}
	for m := range request.Messages() {
		late.Reset(aheadWait)
		meta, err := m.Metadata()
		if err != nil {
			return window
		}
		h := m.Headers()
		window = append(window, chain.Record{
			Seq: meta.Sequence.Stream, ID: h.Get(jetstream.MsgIDHeader), Prev: h.Get(chain.HeaderPrev),
			At: meta.Timestamp.UTC(), Data: m.Data(),
		})
	}
	return window
}
