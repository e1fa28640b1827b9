// Package audit writes what people read afterwards: a bundle per attempt, telemetry, the state of every task, and the
// error report. It takes plain data and knows nothing of machines, buses or containers.
//
//	<dir>/audits/<attempt_id>/   meta.json, worker.log, build.log, test.log, patch.diff, transitions.jsonl, summary.md
//	<dir>/audits/index.json      one line per attempt; derived from the meta files, so it is written anew at every start
//	<dir>/events.jsonl           one line per classification that led to a retry or was shown; .1 is the last full one
//	<dir>/state/<task>/          stats.json, last_failure.json
//	<dir>/outputs/<task>/        _summary.md, the summary of the last attempt; what attempts print is package output's
//	<dir>/ERROR_REPORT.md        one page about a run
//
// <task> is <owner>_<repo>_<n>, in lower case. The two pages for people, summary.md and ERROR_REPORT.md, are
// templates in pages/.
//
// # Invariants
//
//   - Nothing here decides anything, with one exception: a person may edit paid_calls_used in stats.json while no director
//     runs. Written says what the director wrote last; a number that differs from it is a person's.
//   - A counter that cannot be read is never read as zero.
//   - Only the Writer writes, and one process has it: commands read, and leave ERROR_REPORT.md.
//   - Nobody who writes ever waits: what does not fit into the queue is dropped and counted.
//   - A reader sees the old file or the new one, whole lines only, and no secret that the redactor knows.
//   - Disk use is bounded: attempts by number, age and bytes, telemetry by size and number of files, every text by length.
//
// # Clock
//
// Times of what happened are given. The wall clock is read for retention, and for few log lines a minute.
//
// # Failure policy
//
// One goroutine writes, and Close waits for it. A write that fails is reported once, and once more when it works again;
// in between failures are counted. What could not be written is lost: the journal is what the director goes by.
//
// It imports bus/wire for its payload types, recovery for what reasons mean, and safefile to write; nothing that runs.
package audit
