// Package worktree separates the work in a work tree from other files: the state of agents, and ignored files.
//
// State is the files that an agent writes for itself while it runs, such as sessions, databases and logs. Globs select
// them by their paths in the work tree. Ignored files match a .gitignore file of the tree. The package reads those
// itself, like git, because workers have no git.
//
// Invariants: a tracked file is work, even if it matches. .git, at any depth, and Retake's own directory are never
// work. Files skips unreadable directories and never follows symbolic links.
//
// The package uses no clock. Only Files does I/O, on the file system in its argument. It imports the standard library
// and doublestar.
package worktree
