// Package patience sets deadlines that a busy or slow machine does not break.
//
// A deadline of ten seconds means ten seconds of an idle machine. While other processes compete for the CPU, or the
// race detector slows the code down, its clock runs slower than the wall clock by the same factor. A deadline
// matters only on failure, because everything here returns at once when the awaited condition holds.
//
// # Invariants
//
//   - The clock runs at between 1/limit and the full speed of the wall clock.
//   - Nothing outlives its caller: a deadline's goroutine ends with its context, and there is no background sampling.
package patience
