// Package worktree separates the work in a work tree from other files, namely agent state and ignored files.
//
// State consists of the files that an agent writes for its internal use, such as sessions, databases and logs. Globs
// select them by their paths in the work tree. Ignored files are the files matched by a .gitignore file of the tree.
// Workers have no git, so the package parses the .gitignore files itself, as git would.
//
// Invariants: a tracked file is work, even if a glob or ignore rule matches it. .git, at any depth, and Retake's own
// directory are never work. Files skips unreadable directories and never follows symbolic links.
//
// The package does not use a clock. Only Files does I/O, on the file system passed to it. The package imports only the
// standard library and doublestar.
package worktree
