//go:build !race

package attack

// maxMemory of the director during any attack, in MiB.
const maxMemory = 300
