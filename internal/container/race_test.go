//go:build race

package container_test

// raced means that the race detector makes everything about ten times slower.
const raced = true
