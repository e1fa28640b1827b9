// Package hidden protects this process's memory and initial environment from other processes of the same user, such as
// agents running as plain processes.
//
// # Invariants
//
// After Process, /proc/<pid>/environ is empty, only processes with CAP_SYS_PTRACE can read the memory or access open
// files, and core dumps are disabled. After Variables, children do not inherit the removed variables. Code that reads
// variables through this package still sees them.
//
// # Limits
//
// Root can still read everything. The variables are visible until Process is called, so programs call it first. The
// parent, for example a shell, may expose them for its lifetime.
//
// # Clock, failure policy
//
// The package uses no clock. An error describes the remaining exposure. The package supports only Linux.
package hidden
