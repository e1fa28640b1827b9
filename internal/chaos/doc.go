// Package chaos, run by `make chaos`, throws faults at the real director, and judges from outside what became
// of the work.
//
// What runs is the product: the director's program, its workers (containers if an engine answers, else plain
// processes), NATS embedded or joined. Around it is a stand-in for GitHub behind a proxy that fails (proxy.go),
// people (people.go), and an agent that writes down when it lives (agent.go). A seed decides everything that
// this program does; when it happens to meet the director is the machine's business, so a seed repeats the
// faults and not every interleaving.
//
//	Run ── worlds, one after the other: runtime × bus
//	         └─ rounds: an issue is opened, a fault of the table (faults.go) is thrown and taken back,
//	            and the time is measured until the director works again
//	         └─ the end: no more faults; all issues must reach their end
//	         └─ the auditor (audit.go): table.go's columns; each bad one must be zero
//
// # What the auditor trusts
//
// The stand-in's issues, events, requests and branches; the runtime's list; the lines that agents write into a
// file outside of director.data_dir (runs.go). It never reads the journal, the log or the data directory: they
// belong to whom it judges. The director is asked for its health, to measure how long it takes to recover, and
// for nothing else.
//
// # Excuses
//
// Work that was finished less than excuse before its worker or the machine was ended need not have been
// reported, so doing it again is no fault; such runs are counted by themselves. An issue that a person has
// interfered with may be begun anew as often as they did.
package chaos
