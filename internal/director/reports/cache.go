package reports

import (
	"context"
	"slices"
	"sync"

	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/director/failure"
	"retake/internal/fsm"
	"retake/internal/secrets/redact"
)

// Store is the part of the bus that a Cache reads.
type Store interface {
	Of(ctx context.Context, worker string, after uint64) ([]bus.Report, error)
}

// Cache keeps the reports of running attempts, so that each one is read and decoded only once. Usually the stream's
// consumer adds a report. If the consumer is behind, Of reads the report when the attempt ends. Reports consumed by
// another process or session are read again.
type Cache struct {
	store   Store
	secrets func() *redact.Redactor

	mu    sync.Mutex
	bytes int                     // stored size of all cached reports
	read  map[string][]bus.Report // by worker: all reports up to the newest cached one, in stream order
}

// Limits of the cache, which is cleared when it exceeds them. In memory, a report takes a few times its stored size.
const (
	maxCachedWorkers = 256
	maxCachedBytes   = 8 << 20
)

// NewCache returns an empty cache. It redacts all reports from the store.
func NewCache(store Store, secrets func() *redact.Redactor) *Cache {
	return &Cache{store: store, secrets: secrets, read: map[string][]bus.Report{}}
}

// Begin starts to cache a worker's reports. Call it before the worker can send a report.
func (c *Cache) Begin(worker string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(worker, []bus.Report{})
}

// add stores a redacted report from the consumer. A repeated report has no effect.
func (c *Cache) add(r bus.Report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list, complete := c.read[r.Worker]
	switch {
	case complete && r.Seq > lastSeq(list):
		c.put(r.Worker, append(list, r))
	case complete && !slices.ContainsFunc(list, func(one bus.Report) bool { return one.Seq == r.Seq }):
		// the list has newer reports but not this one, so it is incomplete
		c.drop(r.Worker)
	}
}

// Of returns all of a worker's stored reports, redacted.
func (c *Cache) Of(ctx context.Context, worker string) ([]bus.Report, error) {
	c.mu.Lock()
	list := slices.Clone(c.read[worker])
	c.mu.Unlock()
	rest, err := c.store.Of(ctx, worker, lastSeq(list))
	if err != nil {
		return nil, failure.OnBus(err)
	}
	for _, r := range rest {
		list = append(list, Redacted(r, c.secrets()))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if lastSeq(list) >= lastSeq(c.read[worker]) { // the consumer may have added reports during the read
		c.put(worker, list)
	}
	return list, nil
}

// Failure returns the error in a referenced report, and whether a person wrote the report. e is nil if the report is
// missing or has no error.
func (c *Cache) Failure(ctx context.Context, worker string, ref *fsm.ReportRef,
) (e *wire.WorkerError, persons bool, err error) {
	if ref == nil {
		return nil, false, nil
	}
	list, err := c.Of(ctx, worker)
	for _, r := range list {
		if body, ok := r.Body.(*wire.WorkerError); ok && r.Seq == ref.Seq {
			return body, !r.Signed, nil
		}
	}
	return nil, false, err
}

// Drop removes a worker's reports from the cache.
func (c *Cache) Drop(worker string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(worker)
}

// put replaces a worker's cached reports. The caller must hold the lock.
func (c *Cache) put(worker string, list []bus.Report) {
	c.bytes += sizeOf(list) - sizeOf(c.read[worker])
	c.read[worker] = list
	if len(c.read) > maxCachedWorkers || c.bytes > maxCachedBytes {
		clear(c.read)
		c.bytes = 0
	}
}

// drop removes a worker's cached reports. The caller must hold the lock.
func (c *Cache) drop(worker string) {
	c.bytes -= sizeOf(c.read[worker])
	delete(c.read, worker)
}

func sizeOf(list []bus.Report) (n int) {
	for _, r := range list {
		n += r.Bytes
	}
	return n
}

func lastSeq(list []bus.Report) uint64 {
	if len(list) == 0 {
		return 0
	}
	return list[len(list)-1].Seq
}
