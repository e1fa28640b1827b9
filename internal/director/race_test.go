//go:build race

package director

// raced: the race detector makes everything some ten times slower.
const raced = true
