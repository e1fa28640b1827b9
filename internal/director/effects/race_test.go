//go:build race

package effects_test

// raced is true because the race detector is on, which makes everything some ten times slower.
const raced = true
