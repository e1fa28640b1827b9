package telemetry

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// fakeExporter is a collector that answers with err, or accepts every batch.
type fakeExporter struct {
	mu    sync.Mutex
	err   error
	tries int
	taken []string
	first func() // called during the first export; may be nil
}

func (e *fakeExporter) ExportSpans(_ context.Context, spans []sdk.ReadOnlySpan) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.tries++; e.tries == 1 && e.first != nil {
		e.first()
	}
	if e.err != nil {
		return e.err
	}
	for _, s := range spans {
		e.taken = append(e.taken, s.Name())
	}
	return nil
}

func (*fakeExporter) Shutdown(context.Context) error { return nil }

func (e *fakeExporter) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err = err
}

func (e *fakeExporter) seen() (tries int, taken []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.tries, e.taken
}

func put(q *spanQueue, from, to int) {
	for i := from; i < to; i++ {
		q.OnEnd(tracetest.SpanStub{Name: fmt.Sprint(i)}.Snapshot())
	}
}

func queueFor(to sdk.SpanExporter) (*spanQueue, *observer.ObservedLogs) {
	core, logs := observer.New(zap.InfoLevel)
	return newSpanQueue(to, "http://collector", zap.New(core)), logs
}

// TestSpansWaitForTheCollector checks that a full queue drops and counts the oldest spans. The rest arrive in order,
// each once.
func TestSpansWaitForTheCollector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeExporter{err: context.DeadlineExceeded}
		q, logs := queueFor(e)
		go q.run()
		put(q, 0, 100)
		time.Sleep(10 * time.Minute)
		if tries, _ := e.seen(); tries < 20 || tries > 60 {
			t.Errorf("%d tries within ten minutes", tries)
		}
		put(q, 100, spansMost+300)
		e.fail(nil)
		time.Sleep(2 * spansRetryMost)
		_, taken := e.seen()
		if len(taken) != spansMost || taken[0] != "300" || taken[len(taken)-1] != fmt.Sprint(spansMost+299) {
			t.Errorf("%d spans arrived, from %s to %s", len(taken), taken[0], taken[len(taken)-1])
		}
		if logs.FilterMessageSnippet("could not export").Len() != 1 {
			t.Errorf("%v, want one line about an unreachable collector", logs.All())
		}
		again := logs.FilterMessageSnippet("resumed exporting").All()
		if len(again) != 1 || again[0].ContextMap()["dropped"] != int64(300) {
			t.Errorf("%v, want one with a count of 300", again)
		}
		must(t, q.Shutdown(t.Context()))
		put(q, 0, 1) // a span after the shutdown must not panic or block
	})
}

// TestSpansThatAreTooManyWhileSomeAreSent checks a queue that drops spans during their export. The exported spans
// arrive once. After the export, the queue removes only spans that were exported.
func TestSpansThatAreTooManyWhileSomeAreSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeExporter{}
		q, logs := queueFor(e)
		e.first = func() { put(q, spansMost, spansMost+spansAtOnce+100) }
		go q.run()
		put(q, 0, spansMost)
		time.Sleep(time.Minute)
		_, taken := e.seen()
		if len(taken) != spansMost+spansAtOnce || taken[spansAtOnce] != fmt.Sprint(spansAtOnce+100) ||
			taken[len(taken)-1] != fmt.Sprint(spansMost+spansAtOnce+99) {
			t.Errorf("%d spans arrived: %s after the first ones, and %s at the end", len(taken), taken[spansAtOnce],
				taken[len(taken)-1])
		}
		if again := logs.FilterMessageSnippet("resumed exporting").All(); len(again) != 1 ||
			again[0].ContextMap()["dropped"] != int64(100) {
			t.Errorf("%v, want one with a count of 100", logs.All())
		}
		must(t, q.Shutdown(t.Context()))
	})
}

// TestSpansThatAreRefused checks that a batch that the collector rejects does not delay the next ones.
func TestSpansThatAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeExporter{err: errors.New("400")}
		q, logs := queueFor(e)
		go q.run()
		put(q, 0, 3)
		time.Sleep(5 * time.Minute)
		if tries, _ := e.seen(); tries != spansRefused {
			t.Errorf("%d tries, want %d", tries, spansRefused)
		}
		e.fail(nil)
		put(q, 3, 5)
		time.Sleep(2 * spansRetryMost)
		if _, taken := e.seen(); fmt.Sprint(taken) != "[3 4]" {
			t.Errorf("%v arrived, want 3 and 4", taken)
		}
		if again := logs.FilterMessageSnippet("resumed exporting").All(); len(again) != 1 ||
			again[0].ContextMap()["dropped"] != int64(3) {
			t.Errorf("%v, want one with a count of 3", again)
		}
		must(t, q.Shutdown(t.Context()))
	})
}

// TestSpansAtTheEnd checks that waiting spans are sent at once. A hanging collector is abandoned after spansFlush.
func TestSpansAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeExporter{}
		q, logs := queueFor(e)
		go q.run()
		put(q, 0, 2*spansAtOnce+1)
		began := time.Now()
		must(t, q.Shutdown(t.Context()))
		if _, taken := e.seen(); len(taken) != 2*spansAtOnce+1 || time.Since(began) > 0 || logs.Len() > 0 {
			t.Errorf("%d spans arrived in %s: %v", len(taken), time.Since(began), logs.All())
		}

		q, logs = queueFor(hangingExporter{})
		go q.run()
		put(q, 0, 7)
		time.Sleep(spansGather + time.Second)
		began = time.Now()
		must(t, q.Shutdown(t.Context()))
		lost := logs.FilterMessageSnippet("lost").All()
		if took := time.Since(began); took > spansFlush || len(lost) != 1 || lost[0].ContextMap()["spans"] != int64(7) {
			t.Errorf("the end took %s: %v", took, logs.All())
		}
	})
}

type hangingExporter struct{}

func (hangingExporter) ExportSpans(ctx context.Context, _ []sdk.ReadOnlySpan) error {
	<-ctx.Done()
	return ctx.Err()
}

func (hangingExporter) Shutdown(context.Context) error { return nil }
