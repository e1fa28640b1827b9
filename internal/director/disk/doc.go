// Package disk checks the disks that a director writes to: whether the journal's disk is writable, how full the disks
// are, and which attempt fills them. A check may hang if its disk hangs. Guard.Ask therefore returns after a timeout,
// and Guard.Now never blocks.
package disk
