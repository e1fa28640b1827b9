// Package safefile creates, replaces, rotates and removes files atomically. After a crash or a power cut at any time, a
// reader sees either the old content or the new. If a file is damaged anyway, Load sets it aside. The director and the
// worker write all their files through this package, which a linter enforces.
//
// Some directories belong to agents. Functions for them take an os.Root, so a symbolic link cannot redirect a write to
// another directory. They never follow a link at the temporary file's path, and Tail reads only regular files. Agents
// can nest directories to any depth, so Walk and RemoveAll use only a few descriptors and avoid long paths. Create
// writes a file in place without syncing it. Use it for programs that run at once, in directories that are discarded
// after a crash. The package imports only the standard library and x/sys.
package safefile
