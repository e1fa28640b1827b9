// Package patience provides deadlines that adapt to a busy or slow machine. A deadline of ten seconds means ten seconds
// on an idle machine. While other processes compete for the CPU, or the race detector slows the code down, the
// deadline's clock runs slower than the wall clock by the same factor. A long deadline takes time only after a failure,
// because all functions return as soon as their condition holds.
//
// # Invariants
//
//   - The deadline's clock runs at between 1/limit and the full speed of the wall clock.
//   - A deadline's goroutine ends with its context. The package does not measure in the background.
package patience
