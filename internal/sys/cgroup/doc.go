// Package cgroup reads the figures of this process's control group, in versions 1 and 2.
//
// Failure policy: a missing or unreadable figure is unknown. The package is part of every worker, so it imports only
// the standard library. It supports only Linux, and is safe for concurrent use.
package cgroup
