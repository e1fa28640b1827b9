// Package patience sets deadlines that a busy or slow machine does not break. A deadline of ten seconds means ten
// seconds on an idle machine. While other processes compete for the CPU, or the race detector slows the code down,
// the deadline's clock runs slower than the wall clock by the same factor. A long deadline costs time only in a
// failure, because all functions return at once when their condition holds.
// # Invariants
//   - The deadline's clock runs at between 1/limit and the full speed of the wall clock.
//   - Nothing outlives its caller: a deadline's goroutine ends with its context, and there is no background
//     sampling.
package patience
