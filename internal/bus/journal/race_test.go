//go:build race

package journal

// raced: the race detector makes everything some ten times slower.
const raced = true
