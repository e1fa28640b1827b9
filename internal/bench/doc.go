// Package bench is the framework of `make bench`: the measurements, their comparisons, and the goals.
//
//	internal/bench/cmd/bench ──go test──▶ TestBench… of each package ──Record──▶ file of figures ──▶ table, JSON
//
// A package measures itself, in tests named TestBench…, because only it reaches the code that users run. Begin makes
// such a test skip unless the command runs it. Both sides of a comparison are measured in the same test, because ratios
// do not depend on the machine's speed. Absolute figures are for information only.
package bench
