// Package safefile creates, replaces, rotates and removes files atomically. After a crash or a power cut at any time, a
// reader sees either the old content or the new. Load sets aside files that are damaged nevertheless. The director and
// the worker write all their files through this package, which a linter enforces.
//
// Some directories belong to agents. Functions for them take an os.Root, so a symbolic link cannot redirect a write to
// another directory, and a link at the temporary file's path is never followed. Tail reads only regular files there.
// Walk and RemoveAll handle directories of any depth with a few descriptors and without long paths, because agents can
// nest directories to any depth. Create writes a file in place and does not sync it. It is for programs that are run at
// once, in directories that are discarded after a crash. The package imports only the standard library and x/sys.
package safefile
