// Package worktree tells the work in a work tree from what merely lies there: the state of agents, and ignored files.
//
// State is what an agent writes for itself while it runs: sessions, databases, logs. It is named by globs
// relative to the work tree (Globs). Ignored is what the .gitignore files of the tree say, read as git reads
// them, for where there is no git.
//
// Invariants: a file that is tracked is work, whatever matches it. .git, at any depth, and Retake's own folder
// are never work. What cannot be read is passed over. No symbolic link is followed.
//
// Clock: none. Files reads the file system that it is given, and nothing else does any I/O.
// Imports: the standard library and doublestar.
package worktree
