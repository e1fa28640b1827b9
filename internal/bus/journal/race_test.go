//go:build race

package journal

// raced means that the race detector makes everything about ten times slower.
const raced = true
