//go:build race

package github

// raced: the race detector makes everything some ten times slower.
const raced = true
