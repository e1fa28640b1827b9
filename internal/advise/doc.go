// Package advise answers questions about failures over streams: JSON Lines in, JSON Lines out, and the policy as a
// table for people. It implements the commands classify, decide and policy after flag parsing.
//
// One line is one question and gets one answer with the same id. An invalid line gets an error with the line, the
// field, the expected value and the actual value. The stream continues. Blank lines are skipped.
//
// The caller passes a clock, because dates and epochs in evidence need a current time. Invariant: MaxLine bounds the
// memory for streams of any length. Failure policy: a bad line is counted, and a bad stream ends the run.
package advise
