// Package output keeps what attempts print: redacted, bounded, each line with its time, its stage and its
// stream, growing while the attempt runs. People read it; nothing is decided by it.
//
//	<dir>/outputs/<task>/<attempt>.jsonl       while it runs: the newest part; .1.jsonl is the part before
//	                    /<attempt>.jsonl.zst   afterwards: all that is kept; its SHA-256 is in the attempt's meta.json
//
// The first line of a file says whose it is. Lines are numbered: what is missing between two numbers was not kept.
//
//	Source ──chunks──▶ lines, marks ──▶ bounds ──▶ redaction ──▶ file ──▶ any number of readers
//
// # Invariants
//
//   - Nothing is written before it was redacted, wherever chunks, long lines and gaps cut it.
//   - Readers read files: who reads slowly, or not at all, costs nobody anything, and is told how many lines it missed.
//   - Whose stage a line is says the worker, in marks that it signs (wire.StageMark). A line that only looks like one is text.
//   - An attempt that prints without end costs the redaction of 4 MiB at once and of 256 KiB a second after that, two parts of 4 MiB on the
//     disk, and 64 KiB of memory. What is too much is counted and left out, but never the end.
//   - Begin, Expect and Over return at once: they are called by who must not wait.
//
// # Restart
//
// A Source hands over an attempt's output from its beginning, so whoever begins to follow an attempt writes its
// file anew.
//
// # Failure policy
//
// A file that cannot be written costs output, never the attempt. A source that breaks off is read again after a second.
//
// # Clock
//
// Times of lines are the source's. The wall clock is read for lines without one, for bounds by time and for retention.
//
// It imports audit for the names of folders, bus/wire, redact and safefile.
package output
