//go:build race

package attack

// maxMemory of the director, whatever is done to it, in MiB: the race detector keeps several bytes for each of
// the program's.
const maxMemory = 900
