//go:build !race

package fsmtest

const raced = false
