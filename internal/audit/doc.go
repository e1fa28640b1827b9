// Package audit writes records for people: a bundle per attempt, telemetry, the state of every task, and the error
// report. It takes plain data, and does not depend on the machine, the bus or containers.
//
//	<dir>/audits/<attempt_id>/   meta.json, worker.log, build.log, test.log, patch.diff, transitions.jsonl, summary.md
//	<dir>/audits/index.json      one line per attempt; derived from the meta files at every start
//	<dir>/events.jsonl           one line per classification that led to a retry or was shown; .1 is the last full one
//	<dir>/state/<task>/          stats.json, last_failure.json
//	<dir>/outputs/<task>/        _summary.md, the summary of the last attempt; package output owns the rest
//	<dir>/ERROR_REPORT.md        one page about a run
//
// <task> is <owner>_<repo>_<n>, in lower case. The two pages for people, summary.md and ERROR_REPORT.md, are templates
// in pages/.
//
// # Invariants
//
//   - The records do not affect decisions, with one exception. A person may edit paid_calls_used in stats.json
//     while the director is stopped. Written stores the director's last number, so a different number means that a
//     person edited it.
//   - An unreadable counter is never read as zero.
//   - Only the Writer writes, in one process. Commands only read, except that they may create ERROR_REPORT.md.
//   - Callers never block. If the queue is full, a write is dropped and counted.
//   - A reader sees either the old or the new file, only complete lines, and never a known secret.
//   - Disk use is bounded: attempts by number, age and bytes, telemetry by size and number of files, and each text by
//     its length.
//
// # Clock
//
// Callers provide the times of events. The package reads the wall clock for retention, and to limit the log lines per
// minute.
//
// # Failure policy
//
// One goroutine writes, and Close waits for it. The log reports the first failed write, and the first success after it.
// In between, failures are only counted. A failed write is lost, because the director relies only on the journal.
//
// The package imports bus/wire for payload types, recovery for the descriptions of reasons, and safefile for writing.
package audit
