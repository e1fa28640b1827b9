// Package restore restores the machine's state when a session begins, from a snapshot and the journal after it. If
// the journal is damaged, the sources are GitHub, containers, reports and checkouts.
// A session never continues from a damaged journal. A rebuild takes every step that can fail for external reasons
// before its first change.
package restore
