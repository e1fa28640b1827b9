//go:build !race

package director

const raced = false
