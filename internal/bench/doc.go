// Package bench is the framework for `make bench`: the measurements, their comparisons, and the goals.
//
//	internal/bench/cmd/bench ──go test──▶ TestBench… of each package ──Record──▶ file of figures ──▶ table, JSON
//
// Each package has its own measurements, in tests named TestBench…, because they use the package's internals. Begin
// skips such a test unless the command runs it. Both sides of a comparison are measured in the same test, so their
// ratio does not depend on the machine's speed. Absolute figures are for information only.
package bench
