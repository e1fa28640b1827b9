// Package advise answers questions about failures over streams: JSON Lines in, JSON Lines out, and the policy as a
// table for people. It implements the commands classify, decide and policy after flag parsing.
//
// One line is one question and gets one answer with the same id. An invalid line gets an error with the line, the
// field, the expected value and the actual value. The stream continues. Blank lines are skipped.
//
// Clock: none; the caller passes a function, because dates and epochs in evidence need a current time. Invariant:
// memory is bounded by MaxLine for streams of any length. Failure policy: a bad line is counted, a bad stream ends the
// run.
package advise
