// Package lead is how one process of a fleet comes to decide, and what it needs for that: the lock of its data
// directory, the fleet's lease, the journal's state, and a disk that can be written.
//
// A term begins with the lease and ends with it. Within a term a session follows the next: each reads the journal, and
// ends when the journal may differ from what the machine knows. Nothing here decides about tasks.
package lead
