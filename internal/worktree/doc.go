// Package worktree separates the work in a work tree from other files: the state of agents, and ignored files.
//
// State is the files that an agent writes for itself while it runs: sessions, databases, logs. Globs relative to the
// work tree name it (Globs). Files that match the .gitignore files of the tree are ignored. The package reads those
// itself, like git, because workers have no git.
//
// Invariants: a tracked file is work, even if it matches. .git, at any depth, and Retake's own directory are never
// work. Files skips unreadable directories and never follows symbolic links.
//
// Clock: none. Only Files does I/O, on the file system in its argument. Imports: the standard library and doublestar.
package worktree
