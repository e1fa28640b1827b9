// Package chaos, run by `make chaos`, throws faults at the real director, and judges the result from outside.
//
// It runs the product: the director's program, its workers (containers with an engine, or else plain processes), NATS
// embedded or joined. Around it is a stand-in for GitHub behind a proxy that fails (proxy.go), people (people.go),
// and an agent that writes down when it lives (agent.go). A seed decides the actions of this program. The
// machine decides their time, so a seed repeats the faults and not every interleaving.
//
//	Run ── worlds, one after the other: runtime × bus
//	         └─ rounds: an issue is opened, a fault of the table (faults.go) is thrown and taken back,
//	            and the time is measured until the director works again
//	         └─ the end: no more faults; all issues must reach their end
//	         └─ the auditor (audit.go): table.go's columns; each bad one must be zero
//
// # What the auditor trusts
//
// It trusts the stand-in's issues, events, requests and branches, the runtime's list, and the lines that agents write
// into a file outside of director.data_dir (runs.go). It never reads the journal, the log or the data directory,
// because
// they belong to the director. The director itself reports only its health, to measure the time of its recovery.
//
// # Excuses
//
// Work that finished less than excuse before the end of its worker or machine may be unreported, so doing it again is
// not a fault. Such runs are counted separately. An issue that a person has changed may start again as often as the
// person changed it.
package chaos
