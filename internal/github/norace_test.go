//go:build !race

package github

const raced = false
