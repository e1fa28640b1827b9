//go:build !race

package attack

// maxMemory bounds the director's memory during any attack, in MiB.
const maxMemory = 300
