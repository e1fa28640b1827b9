//go:build race

package fsmtest

// raced: the race detector makes everything some ten times slower.
const raced = true
