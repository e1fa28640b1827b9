//go:build race

package attack

// maxMemory of the director during any attack, in MiB. The race detector multiplies the program's memory.
const maxMemory = 900
