//go:build race

package container_test

// raced: the race detector makes everything some ten times slower.
const raced = true
