// Package diskfault classifies disk errors, in one table for the director's own files, git, and the container engine.
// It is pure.
package diskfault

import (
	"errors"
	"strings"
	"syscall"
)

// Fault is the classification of a disk error.
type Fault int

// The faults. A full disk affects everything on it and may have space again later. A failing disk may affect a single
// file, for example in a container with a read-only file system.
const (
	None Fault = iota
	Full
	Failing
)

// faults lists system errors with the texts that programs print for them. Ambiguous errors have no texts.
var faults = []struct {
	err   syscall.Errno
	words []string
	is    Fault
}{
	// git prints "out of diskspace" after a write of 0 bytes
	{syscall.ENOSPC, []string{"no space left on device", "out of diskspace"}, Full},
	{syscall.EDQUOT, []string{"disk quota exceeded"}, Full},
	{syscall.EROFS, []string{"read-only file system"}, Failing},
	{syscall.EIO, []string{"input/output error"}, Failing},
	{syscall.ESTALE, []string{"stale file handle", "stale nfs file handle"}, Failing}, // texts from libc and Go
	{syscall.ENODEV, nil, Failing},
	{syscall.ENXIO, nil, Failing},
}

// Of classifies an error that wraps a system error, such as ENOSPC.
func Of(err error) Fault {
	for _, f := range faults {
		if errors.Is(err, f.err) {
			return f.is
		}
	}
	return None
}

// InWords classifies a program's English output.
func InWords(text string) Fault {
	text = strings.ToLower(text)
	for _, f := range faults {
		for _, words := range f.words {
			if strings.Contains(text, words) {
				return f.is
			}
		}
	}
	return None
}
