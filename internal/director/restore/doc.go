// Package restore restores the machine's state when a session begins. Its sources are a snapshot and the journal after
// the snapshot. Without a sound journal, they are GitHub, containers, reports and checkouts.
//
// A session never continues from an unsound journal. A rebuild takes every step that can fail for external reasons
// before its first change.
package restore
