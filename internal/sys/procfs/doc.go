// Package procfs shows the processes of this machine as /proc lists them: who lives, who is below whom, and which one a
// number means.
//
// Invariant: a signal goes to the very process that an ID names, never to one that was given its number since.
//
// Clock: start times are the kernel's ticks since boot and are only compared with themselves. Failure policy: a
// process that ends meanwhile is no error. Linux only. It becomes part of every worker, so it imports the
// standard library only; the worker and the process runtime import it.
package procfs
