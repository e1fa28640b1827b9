//go:build !race

package bus

const raced = false
