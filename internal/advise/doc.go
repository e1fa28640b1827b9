// Package advise answers questions about failures over streams: JSON Lines in, JSON Lines out, and the policy as a
// table for people. It is what the commands classify, decide and policy do once their flags are read.
//
// One line is one question and gets one answer with the same id. A line that cannot be answered gets an error that
// names the line, the field, what is wanted and what came; the stream continues. Blank lines are skipped.
//
// Clock: none; the caller passes a function, because dates and epochs in evidence need a current time.
// Invariant: memory is bounded by MaxLine, whatever the length of the stream.
// Failure policy: a bad line is counted, a bad stream ends the run.
package advise
