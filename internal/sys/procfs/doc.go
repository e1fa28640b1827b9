// Package procfs lists this machine's processes from /proc: their states, parents and identities.
//
// Invariant: ID.Signal reaches only the process with that ID, never a later process with the same number.
//
// Clock: start times are the kernel's ticks since boot, and are compared only with each other. Failure policy:
// processes that end during a call are ignored. The package supports only Linux. It is part of every worker, so it
// imports only the standard library.
package procfs
