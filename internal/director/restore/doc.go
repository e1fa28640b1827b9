// Package restore restores the machine's state when a session begins, from a snapshot and the journal after it. A
// session never continues from a damaged journal. Instead, a rebuild creates a new journal from the readable part of
// the old one, GitHub, containers, reports and checkouts. Before its first change, a rebuild takes every step that can
// fail for external reasons.
package restore
