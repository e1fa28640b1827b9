//go:build race

package main

// raced is true because the race detector is on, which makes everything some ten times slower.
const raced = true
