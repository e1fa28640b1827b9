// Package audit writes what people read afterwards: a bundle per attempt, telemetry, the state of every task, and the
// error report. It takes plain data and knows nothing of machines, buses or containers.
//
//	<dir>/audits/<attempt_id>/   meta.json, worker.log, build.log, test.log, patch.diff, transitions.jsonl, summary.md
//	<dir>/audits/index.json      one line per attempt; derived from the meta files, so it is written anew at every start
//	<dir>/events.jsonl           one line per classification that led to a retry or was shown; .1 is the last full one
//	<dir>/state/<task>/          stats.json, last_failure.json
//	<dir>/outputs/<task>/        _summary.md, the summary of the last attempt
//	<dir>/ERROR_REPORT.md        one page about a run
//
// <task> is <owner>_<repo>_<n>, in lower case.
//
// # Invariants
//
//   - Nothing here decides anything, with one exception: a person may edit paid_calls_used in stats.json. What was edited
//     is found by comparison with what was written last, and it is never overwritten before somebody took it.
//   - A counter that cannot be read is never read as zero: the file is kept aside, and the log says where.
//   - Nobody who writes ever waits: what does not fit into the queue is dropped and counted.
//   - A reader sees the old file or the new one, whole lines only, and no secret that the redactor knows.
//   - Disk use is bounded: attempts by number, age and bytes, telemetry by size and number of files, every text by length.
//
// # Clock
//
// Times of what happened are given. The wall clock is read for retention, for names of files kept aside, and to say no
// more than once a minute that the same thing fails.
//
// # Failure policy
//
// One goroutine writes, and Close waits for it. A write that fails is reported once, and once more when it works again;
// in between failures are counted. What could not be written is lost: the journal is what the director goes by.
package audit
