// Package disk looks at the disks that a director writes to: whether the journal's can be written, how full
// they are, and which attempt fills them.
//
// A look may hang with its disk. Guard.Ask gives up after a time, and Guard.Now never waits.
package disk
