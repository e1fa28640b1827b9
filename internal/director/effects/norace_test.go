//go:build !race

package effects_test

const raced = false
