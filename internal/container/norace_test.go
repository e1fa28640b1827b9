//go:build !race

package container_test

const raced = false
