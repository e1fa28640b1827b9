// Package disk checks the disks that a director writes to: whether the journal's disk can be written, how full the
// disks are, and which attempt fills them.
//
// A check may hang with its disk. Guard.Ask gives up after a time, and Guard.Now never blocks.
package disk
