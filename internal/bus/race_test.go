//go:build race

package bus

// raced: the race detector makes everything some ten times slower.
const raced = true
