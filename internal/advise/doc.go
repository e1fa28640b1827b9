// Package advise answers questions about failures over streams: JSON Lines in, JSON Lines out, and the policy as a
// table for people. It is what the commands classify, decide and policy do once their flags are read.
//
//	reader ──batches──▶ one worker per core ──▶ writer, in the order of the input
//
// One line is one question and gets one answer with the same id. A line that cannot be answered gets an error that
// names the line, the field, what is wanted and what came; the stream goes on. Blank lines are passed over.
//
// Clock: none; whoever calls passes a function, because dates and epochs in evidence need a now.
// Invariant: memory is bounded by the number of cores and MaxLine, whatever the length of the stream.
// Failure policy: a bad line is counted, a bad stream ends the run.
package advise
