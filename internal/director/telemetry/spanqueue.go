package telemetry

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap"
)

// Limits of the queue and of one export.
const (
	spansMost      = 16_384 // enough for a few hundred tasks
	spansAtOnce    = 512
	spansGather    = time.Second // how long the first span of a batch waits for more
	spansTimeout   = 10 * time.Second
	spansFlush     = 2 * time.Second // at the end of the process
	spansRetryMost = 30 * time.Second
	// a batch is dropped after this many refusals by the collector; without an answer it stays queued
	spansRefused = 5
)

// spanQueue holds ended spans until the collector has accepted them. It never blocks its callers. When it is full, it
// drops the oldest span and counts it. The SDK's queue drops spans without counting them, and loses the spans of a
// failed export. This queue sends them again with the same IDs.
type spanQueue struct {
	exporter sdk.SpanExporter
	endpoint string
	log      *zap.Logger
	some     chan struct{} // holds a token while spans are queued
	stop     chan struct{}
	done     chan struct{} // closed when run returns
	ctx      context.Context
	cancel   context.CancelFunc
	once     sync.Once

	mu      sync.Mutex
	waiting []sdk.ReadOnlySpan
	sending int // number of waiting spans that are being sent
	dropped int // spans dropped since the collector last accepted some

	away bool // the last export failed and was logged; used by run, and by Shutdown after run has returned
}

var _ sdk.SpanProcessor = (*spanQueue)(nil)

func newSpanQueue(to sdk.SpanExporter, endpoint string, log *zap.Logger) *spanQueue {
	q := &spanQueue{
		exporter: to, endpoint: endpoint, log: log, some: make(chan struct{}, 1), stop: make(chan struct{}),
		done: make(chan struct{}),
	}
	q.ctx, q.cancel = context.WithCancel(context.Background())
	return q
}

// OnStart implements sdk.SpanProcessor. It does nothing, because only ended spans are queued.
func (*spanQueue) OnStart(context.Context, sdk.ReadWriteSpan) {}

// OnEnd queues a span. It never blocks.
func (q *spanQueue) OnEnd(s sdk.ReadOnlySpan) {
	q.mu.Lock()
	if len(q.waiting) >= spansMost {
		q.waiting = q.waiting[1:]
		q.sending = max(q.sending-1, 0)
		q.dropped++
	}
	q.waiting = append(q.waiting, s)
	q.mu.Unlock()
	select {
	case q.some <- struct{}{}:
	default:
	}
}

// ForceFlush implements sdk.SpanProcessor. It is never called.
func (*spanQueue) ForceFlush(context.Context) error { return nil }

// Shutdown stops run and sends the queued spans without retries, for at most spansFlush. It logs how many spans are
// lost.
func (q *spanQueue) Shutdown(ctx context.Context) error {
	q.once.Do(func() { close(q.stop) })
	flush, cancel := context.WithTimeout(ctx, spansFlush)
	defer cancel()
	release := context.AfterFunc(flush, q.cancel)
	defer release()
	<-q.done
	for batch := q.batch(); len(batch) > 0 && q.send(flush, batch) == nil; batch = q.batch() {
		q.sent(len(batch))
	}
	if lost := q.lost(); lost > 0 {
		q.log.Warn("traces lost, because the collector did not accept them before the director stopped",
			zap.String("endpoint", q.endpoint), zap.Int("spans", lost))
	}
	q.cancel()
	return q.exporter.Shutdown(flush)
}

// run sends batches until Shutdown. After a failure it backs off, up to spansRetryMost.
func (q *spanQueue) run() {
	defer close(q.done)
	again := backoff.NewExponentialBackOff()
	again.InitialInterval, again.MaxInterval = time.Second, spansRetryMost
	for refused := 0; q.gather(); {
		for batch := q.batch(); len(batch) > 0; batch = q.batch() {
			err := q.send(q.ctx, batch)
			if err == nil {
				q.sent(len(batch))
				again.Reset()
				refused = 0
				continue
			}
			if !outOfReach(err) {
				refused++
			}
			if refused >= spansRefused {
				q.refuse()
				refused = 0
			}
			if !q.pause(again.NextBackOff()) {
				return
			}
		}
	}
}

// outOfReach reports whether an export failed without an answer from the collector.
func outOfReach(err error) bool {
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, context.DeadlineExceeded)
}

// gather waits for the first span, then spansGather for more. It returns false when the process ends.
func (q *spanQueue) gather() bool {
	select {
	case <-q.some:
		return q.pause(spansGather)
	case <-q.stop:
		return false
	}
}

func (q *spanQueue) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-q.stop:
		return false
	}
}

// batch returns the next spans to send. They stay in the queue until sent or refuse removes them.
func (q *spanQueue) batch() []sdk.ReadOnlySpan {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sending = min(len(q.waiting), spansAtOnce)
	return append([]sdk.ReadOnlySpan(nil), q.waiting[:q.sending]...)
}

func (q *spanQueue) send(ctx context.Context, batch []sdk.ReadOnlySpan) error {
	ctx, cancel := context.WithTimeout(ctx, spansTimeout)
	defer cancel()
	err := q.exporter.ExportSpans(ctx, batch)
	if err != nil && !q.away {
		q.log.Warn("could not export traces; they stay queued, and the oldest are dropped if the queue fills up",
			zap.String("endpoint", q.endpoint), zap.Error(err))
	}
	q.away = q.away || err != nil
	return err
}

// sent removes the sent spans from the queue, except spans that were dropped in the meantime.
func (q *spanQueue) sent(n int) {
	q.mu.Lock()
	dropped := q.dropped - (n - q.sending) // the export included spans that the queue has dropped
	q.waiting, q.sending, q.dropped = q.waiting[q.sending:], 0, 0
	q.mu.Unlock()
	if q.away || dropped > 0 {
		q.log.Info("resumed exporting traces", zap.String("endpoint", q.endpoint), zap.Int("dropped", dropped))
	}
	q.away = false
}

// refuse drops a batch rejected by the collector.
func (q *spanQueue) refuse() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dropped += q.sending
	q.waiting, q.sending = q.waiting[q.sending:], 0
}

func (q *spanQueue) lost() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting) + q.dropped
}
