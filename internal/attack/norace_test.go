//go:build !race

package attack

// maxMemory of the director, whatever is done to it, in MiB.
const maxMemory = 300
