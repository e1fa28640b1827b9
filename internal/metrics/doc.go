// Package metrics exports the director's metrics to Prometheus.
//
// Table has a row for each metric, from which docs/specs/metrics.md is generated. Task metrics count facts from the
// journal. Apply queues each batch on the owner's goroutine, which costs a lock and an append. A goroutine of this
// package (Follow) or a scrape processes the queue. A scrape reads gauges from the same state and from Readings,
// without asking the owner. It therefore never delays a decision, and shows only durable state.
//
// Every label has a closed list of values, and unknown names from outside are counted as "other". Issues and attempts
// are never labels. Counters start at 0 when the process starts. Task metrics are exported while a session leads, from
// Restore to End. Only the leader exports them, so sums over instances are correct.
//
// Durations between two facts use the journal's times. Ages are measured against this machine's clock.
package metrics
