// Package metrics counts what a director does, for Prometheus.
//
// Its one table, Table, has a row for each metric; docs/specs/metrics.md is generated from it. What happens to
// tasks is counted from facts that are in the journal: Apply takes each batch on the owner's goroutine, which
// costs it a lock and an append, and a goroutine of this package (Follow), or a scrape, works it off. Gauges
// are read at a scrape, from that and from Readings; nobody asks the owner for anything. So a scrape never
// makes a decision later, and what it shows was durable before.
//
// Labels have bounded values: a name that comes from outside becomes "other" unless it is known, and neither
// issues nor attempts are labels. Counters begin at 0 with the process. What is told of tasks is told while a
// session leads, from Restore to End: of several directors only the leader shows them, so that sums over
// instances are right.
//
// Times between two facts are the journal's. Ages are measured against this machine's clock.
package metrics
