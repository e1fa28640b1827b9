package bus

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"retake/internal/bus/chain"
)

// Bounds of what is read ahead. What is under way to one connection must stay far below what the server lets
// wait there before it disconnects it, and the appends go over the same one.
const (
	aheadFrom    = 16          // batches: fewer are asked for one by one
	aheadBatches = 1000        // of one request, at most
	aheadBytes   = 2 << 20     // of one request, at most
	aheadAtOnce  = 2           // requests under way of all who read the journal
	aheadWait    = time.Second // for the next batch of a request
	aheadTries   = 3           // in a row that give nothing: then there is no other
)

// ahead reads the live batches before they are asked for: by a consumer of the server's, which goes away by
// itself. It is a hint. What it does not have, or not in its turn, is asked for by itself, and only the answer
// to that says what there is. At most three requests' batches are in memory.
type ahead struct {
	j    *Journal
	last uint64 // of what is read

	windows chan []chain.Record // in their order; closed when there are no more; nil: nothing is being read
	window  []chain.Record      // what is left of the first
	cancel  context.CancelFunc
	reading sync.WaitGroup
	given   bool // something, since it was begun
	barren  int  // beginnings in a row that gave nothing
}

// batch is the one at a sequence; ok is false if it has to be asked for by itself.
func (a *ahead) batch(ctx context.Context, seq uint64) (r chain.Record, ok bool) {
	if a.windows == nil && a.last-seq+1 >= aheadFrom && a.barren < aheadTries {
		a.begin(ctx, seq)
	}
	for a.windows != nil {
		for len(a.window) > 0 && a.window[0].Seq < seq { // it was asked for meanwhile
			a.window = a.window[1:]
		}
		if len(a.window) > 0 {
			r = a.window[0]
			return r, r.Seq == seq // else there is a hole
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
		a.j.readWindows(ctx, next, a.last, windows)
	})
}

// end ends the reading, if there is one, and waits for it.
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

// readWindows reads live batches until something is in its way.
func (j *Journal) readWindows(ctx context.Context, next, last uint64, windows chan<- []chain.Record) {
	asked, cancel := context.WithTimeout(ctx, readTimeout)
	consumer, err := j.stream.CreateConsumer(asked, jetstream.ConsumerConfig{
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
		_ = j.stream.DeleteConsumer(ctx, consumer.CachedInfo().Name) // or it goes away by itself
	}()
	for next <= last {
		select {
		case j.aheads <- struct{}{}:
		case <-ctx.Done():
			return
		}
		window := readWindow(ctx, consumer, min(last-next+1, aheadBatches))
		<-j.aheads
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

// readWindow reads at most n batches by one request; fewer if they are large, or if something is in its way.
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
