// Package chaos injects faults into the real director, and checks the result from outside. `make chaos` runs it.
//
// It runs the real programs: the director, its workers (in containers if an engine answers, or else as plain
// processes), and NATS, embedded or joined. Their peers are simulated: GitHub behind a failing proxy (proxy.go), people
// (people.go), and an agent that records when it is alive (agent.go). A seed determines the actions of this program but
// not their exact times, so it repeats the faults but not every interleaving.
//
//	Run ── worlds, one after the other: runtime × bus
//	         └─ rounds: an issue is opened, a fault from the table (faults.go) is injected and reverted,
//	            and the time is measured until the director works again
//	         └─ the end: no more faults; all issues must reach their end
//	         └─ the auditor (audit.go): table.go's columns; each bad one must be zero
//
// # What the auditor trusts
//
// It trusts the stand-in's issues, events, requests and branches, the runtime's list, and the lines that agents write
// to a file outside director.data_dir (runs.go). It never reads the journal, the log or the data directory, because the
// director writes them. It asks the director only for its health, to measure the duration of a recovery, and for the
// times at which it considered a worker silent, because only the director knows them.
//
// # Excuses
//
// If a worker or its machine ends less than a second (excuse) after the work finished, the report may be missing, so
// doing the work again is not a fault. The table counts such runs separately. Each change of an issue by a person
// excuses one restart of its work.
package chaos
