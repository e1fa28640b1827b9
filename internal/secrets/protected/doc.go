// Package protected lists the files that other systems and tools execute or obey, and matches paths against them.
//
// Deny lists files that run with secrets after a push or during a deployment. Ask lists files that run on the machines
// of people who check out the branch, or that steer agents, reviews and merges. Each row links to the vendor's
// documentation. README.md is generated from the rows:
//
//	go test ./internal/secrets/protected -update
//
// Ordinary build files, such as Makefile or package.json, are not in the table, because most work changes them.
//
// # Invariants
//
// A path is protected in any spelling that some file system treats as the same path. The package has no I/O and no
// state.
package protected
