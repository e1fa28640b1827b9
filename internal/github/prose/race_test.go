//go:build race

package prose

// raced: the race detector makes everything some ten times slower.
const raced = true
