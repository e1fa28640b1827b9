//go:build race

package director

// raced reports whether the race detector is on, which makes everything some ten times slower.
const raced = true
