// Package output stores the output of attempts for people. Output is redacted and bounded, and each line has its time,
// stage and stream. Readers can follow it while the attempt runs. The director does not use it for decisions.
//
//	<dir>/outputs/<task>/<attempt>.jsonl       the newest part of a running attempt; .1.jsonl is the previous part
//	                    /<attempt>.jsonl.zst   the output of an ended attempt; meta.json has its SHA-256
//
// The first line of a file identifies the attempt. Lines are numbered, and a gap in the numbers means that lines were
// dropped.
//
//	Source ──chunks──▶ lines, marks ──▶ bounds ──▶ redaction ──▶ file ──▶ any number of readers
//
// # Invariants
//
//   - Output is redacted before it is written, even if chunks, long lines or gaps split a secret.
//   - Readers read files, so a slow reader does not block anything. Line.Skipped counts the lines that it missed.
//   - The worker signs the marks that assign lines to stages (wire.StageMark). A line that only looks like a mark is
//     ordinary text.
//   - An attempt that prints endlessly uses bounded resources. Redaction handles a burst of 4 MiB, and then 256 KiB a
//     second. Its output takes at most two parts of 4 MiB on disk, and 64 KiB in memory. Output above the limits is
//     counted and dropped, except for the end.
//   - Begin, Expect and Over do not block, because the director's loop calls them.
//
// # Restart
//
// A Source delivers an attempt's output from the beginning, so a new process rewrites the attempt's file.
//
// # Failure policy
//
// A failed write loses output, but never the attempt. An interrupted source is read again after a second.
//
// # Clock
//
// Lines keep the timestamps of their source. The wall clock is used for lines without a timestamp, for the rate limit
// and for retention.
//
// The package imports audit (for directory names), bus/wire, redact and safefile.
package output
