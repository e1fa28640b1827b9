//go:build race

package workspace

// raced means that the race detector makes everything about ten times slower.
const raced = true
