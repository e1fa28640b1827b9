// Package chaos injects faults into the real director, and checks the result from outside. `make chaos` runs it.
//
// It runs the real programs: the director, its workers (in containers if an engine responds, otherwise as plain
// processes), and NATS, embedded or joined. Their peers are simulated: GitHub behind a failing proxy (proxy.go), people
// (people.go), and an agent that records when it is alive (agent.go). A seed determines the actions of this program but
// not their exact times, so it repeats the faults but not every interleaving.
//
//	Run ── worlds, one after the other: runtime × bus
//	         └─ rounds: open an issue, inject a fault from the table (faults.go), revert it,
//	            and measure the time until the director works again
//	         └─ the end: no more faults; all issues must finish
//	         └─ the auditor (audit.go): table.go's columns; each bad one must be zero
//
// # What the auditor trusts
//
// It trusts the stand-in's issues, events, requests and branches, the runtime's list, and the lines that agents write
// to a file outside director.data_dir (runs.go). It never reads the journal, the log or the data directory, because the
// director writes them. It asks the director only for its health, to measure how long recovery takes, and for its
// suspicions that a worker is silent. Only the director knows these.
//
// # Excuses
//
// If a worker or its machine dies less than a second (excuse) after the work finished, the report may be missing.
// Repeating the work is then not a fault. The table counts such runs separately. Whenever a person changes an issue,
// one restart of its work is excused.
package chaos
