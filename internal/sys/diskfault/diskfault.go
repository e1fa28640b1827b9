// Package diskfault says which errors are of a disk: one table for the files of the director's own, for git,
// and for the container engine. It is pure.
package diskfault

import (
	"errors"
	"strings"
	"syscall"
)

// Fault is what an error says of the disk that it came from.
type Fault int

// The faults. A full disk has room again one day, and everybody on it fails alike; one that fails may do so for
// a single file, or because somebody has made a container's own file system read-only.
const (
	None Fault = iota
	Full
	Failing
)

// faults says it for each error of the system, and in which words programs pass it on; none: they are said of
// other things, too.
var faults = []struct {
	err   syscall.Errno
	words []string
	is    Fault
}{
	// git has words of its own for a write of which nothing was written
	{syscall.ENOSPC, []string{"no space left on device", "out of diskspace"}, Full},
	{syscall.EDQUOT, []string{"disk quota exceeded"}, Full},
	{syscall.EROFS, []string{"read-only file system"}, Failing},
	{syscall.EIO, []string{"input/output error"}, Failing},
	{syscall.ESTALE, []string{"stale file handle", "stale nfs file handle"}, Failing}, // as libc and as Go say it
	{syscall.ENODEV, nil, Failing},
	{syscall.ENXIO, nil, Failing},
}

// Of says it of an error that has the system's code.
func Of(err error) Fault {
	for _, f := range faults {
		if errors.Is(err, f.err) {
			return f.is
		}
	}
	return None
}

// InWords says it of what a program has said, in English.
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
