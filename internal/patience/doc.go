// Package patience provides deadlines that adapt to a busy or slow machine. A deadline of ten seconds means ten seconds
// on an idle machine. While other processes compete for the CPU, or the race detector slows the code down, the
// deadline's clock runs slower than the wall clock by the same factor. A long deadline costs time only on failure,
// because all functions return as soon as their condition holds.
//
// # Invariants
//
//   - The deadline's clock runs at the speed of the wall clock or slower, but at least at 1/limit of that speed.
//   - A deadline's goroutine ends with its context. The package does not measure in the background.
package patience
