//go:build race

package attack

// maxMemory bounds the director's memory during any attack, in MiB. The race detector multiplies the memory.
const maxMemory = 900
