// Package hidden protects this process's memory and initial environment from other processes of the same user, such as
// agents running as plain processes.
//
// # Invariants
//
// After Process, /proc/<pid>/environ is empty, only processes with CAP_SYS_PTRACE can read the memory or follow open
// files, and core dumps are disabled. After Variables, children do not inherit the removed variables. Code that reads
// variables through this package still sees them.
//
// # Limits
//
// Root can still read all of it. The variables are visible until Process is called, so programs call it first. The
// parent, for example a shell, may expose them for its lifetime.
//
// # Clock, failure policy
//
// The package uses no clock. An error names what remains exposed. It supports Linux only.
package hidden
