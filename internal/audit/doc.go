// Package audit writes what people read afterwards: a bundle per attempt, telemetry, the state of every task, and the
// error report. It takes plain data and has no dependency on the machine, the bus or containers.
//
//	<dir>/audits/<attempt_id>/   meta.json, worker.log, build.log, test.log, patch.diff, transitions.jsonl, summary.md
//	<dir>/audits/index.json      one line per attempt; derived from the meta files, so every start rebuilds it
//	<dir>/events.jsonl           one line per classification that led to a retry or was shown; .1 is the last full one
//	<dir>/state/<task>/          stats.json, last_failure.json
//	<dir>/outputs/<task>/        _summary.md, the summary of the last attempt; package output owns the rest
//	<dir>/ERROR_REPORT.md        one page about a run
//
// <task> is <owner>_<repo>_<n>, in lower case. The two pages for people, summary.md and ERROR_REPORT.md, are
// templates in pages/.
//
// # Invariants
//
//   - Nothing here decides anything, with one exception: a person may edit paid_calls_used in stats.json while no
//     director runs. Written stores the director's last number; a different number was edited by a person.
//   - A counter that cannot be read is never read as zero.
//   - Only the Writer writes, and one process has it: commands read, and leave ERROR_REPORT.md.
//   - Callers never block. If the queue is full, a write is dropped and counted.
//   - A reader sees either the old or the new file, only complete lines, and never a known secret.
//   - Disk use is bounded: attempts by number, age and bytes, telemetry by size and number of files, every text by
//     length.
//
// # Clock
//
// Callers provide the times of events. The wall clock is read for retention, and for few log lines a minute.
//
// # Failure policy
//
// One goroutine writes, and Close waits for it. A write that fails is reported once, and once more when it works again;
// in between failures are counted. A failed write is lost. The director itself relies on the journal.
//
// It imports bus/wire for payload types, recovery for the descriptions of reasons, and safefile for writing.
package audit
