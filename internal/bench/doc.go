// Package bench is the frame of `make bench`: what is measured, beside what, and whether that is good enough.
//
//	internal/bench/cmd/bench ──go test──▶ TestBench… of each package ──Record──▶ file of figures ──▶ table, JSON
//
// A package measures itself, in tests named TestBench…, because only it reaches the code that users run. Begin
// makes such a test skip unless the command runs it. What is compared is measured in the same test, so that a
// ratio means something on a machine whose speed is not known; absolute figures only inform.
package bench
