// Package hidden keeps what this process knows from other processes of the same user, agents that run as plain
// processes among them: its memory, and the variables that it was started with.
//
// # Invariants
//
// After Process, /proc/<pid>/environ is empty, nobody without CAP_SYS_PTRACE reads the memory or follows the
// open files, and no core is dumped. After Variables, no child inherits what was taken, and whoever reads
// variables through this package finds them as before.
//
// # What it does not do
//
// Root reads everything. Until Process is called, which is the first thing that a program does, the variables
// can be seen; and whoever has started the program, a shell for example, may show them for as long as it lives.
//
// # Clock, failure policy
//
// None; an error names what can still be seen. Linux only.
package hidden
