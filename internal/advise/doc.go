// Package advise answers questions about failures over streams of JSON Lines, and prints the policy as a table. It
// implements the commands classify, decide and policy; the caller parses their flags.
//
// Each line is one question and gets one answer with the same id. The answer to an invalid line is an error with the
// line number, field, expected value and actual value, and the stream continues. Blank lines are skipped.
//
// The caller passes a clock, because dates and epochs in evidence need a current time. Invariant: MaxLine limits the
// memory for streams of any length. Failure policy: the package counts bad lines, and a read or write error ends the
// run.
package advise
