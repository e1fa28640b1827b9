//go:build race

package workspace

// raced: the race detector makes everything some ten times slower.
const raced = true
