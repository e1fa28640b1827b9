//go:build !race

package prose

const raced = false
