// Package projection says what a read model of the journal is, and defines what several of them count.
//
//	journal ──feed──▶ Apply ──┬─ story.Book        what people are shown
//	owner, durable batches ─▶ ├─ trace.Book        the spans of tasks
//	                          ├─ metrics.Metrics   counters and gauges
//	                          ├─ whatif.Follower   what another policy would decide
//	                          └─ the director's recorder, which writes audits
//
// # Invariants
//
//   - A projection folds durable facts in the order of the journal and decides nothing.
//   - How an attempt ended, whether a retry paid off and whether a question needed nobody are defined here alone,
//     so that the page, the metrics and the audits agree.
//
// # Clock
//
// The times of the records are the only clock.
package projection

import (
	"strings"

	"retake/internal/fsm"
)

// Projection folds batches of the journal. It belongs to one goroutine unless its type says otherwise.
type Projection interface {
	// Apply folds in the records of the batch at seq. Sequences rise, but batches may be missing.
	Apply(seq uint64, records []fsm.Record)
}

// Restorer is a projection that can begin in the middle of the journal.
type Restorer interface {
	Projection

	// Restore takes the machine's snapshot as of the batch at seq. What was applied before stays where it agrees.
	Restore(seq uint64, snapshot []byte) error
}

// Fold returns the key in lower case: GitHub compares names without case.
func Fold(k fsm.IssueKey) fsm.IssueKey { return fsm.IssueKey(strings.ToLower(string(k))) }
