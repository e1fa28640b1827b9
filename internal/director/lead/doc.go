// Package lead makes one process of a fleet the leader. A leader needs the lock on its data directory, the fleet's
// lease, the journal's state, and a writable disk.
//
// A term begins and ends with the lease. Within a term, one session follows another. Each session reads the journal,
// and ends when the journal may differ from the machine's state. This package does not make decisions about tasks.
package lead
