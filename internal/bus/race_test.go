//go:build race

package bus

// raced means that the race detector makes everything about ten times slower.
const raced = true
