// Package projection defines the interface of the journal's read models, and the results that several of them count,
// such as the success of a retry.
//
//	journal ──feed──▶ Apply ──┬─ timeline.Book     the timelines that people read
//	owner, durable batches ─▶ ├─ trace.Book        the spans of tasks
//	                          ├─ metrics.Metrics   counters and gauges
//	                          ├─ whatif.Follower   what another policy would decide
//	                          └─ the director's recorder, which writes audits
//
// # Invariants
//
//   - A projection applies durable facts in journal order. It does not decide anything.
//   - Only this package decides when an attempt has ended, when a retry has paid off, and when a question did not need
//     a person. The page, the metrics and the audits therefore agree.
//
// # Clock
//
// The times of the records are the only clock.
package projection

import (
	"strings"

	"retake/internal/fsm"
)

// Projection accumulates batches of the journal. It belongs to one goroutine, unless its type documents otherwise.
type Projection interface {
	// Apply adds the records of the batch at seq. Sequences increase, but batches may be missing.
	Apply(seq uint64, records []fsm.Record)
}

// Restorer is a projection that can start in the middle of the journal.
type Restorer interface {
	Projection

	// Restore sets the state from the machine's snapshot at seq. It keeps earlier results that agree with the
	// snapshot.
	Restore(seq uint64, snapshot []byte) error
}

// Fold returns the key in lower case, because GitHub ignores case in names.
func Fold(k fsm.IssueKey) fsm.IssueKey { return fsm.IssueKey(strings.ToLower(string(k))) }
