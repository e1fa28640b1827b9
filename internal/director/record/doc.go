// Package record writes the records of a run that people read later: audits of attempts, telemetry, the state of tasks,
// and the log of decisions. A Recorder follows the journal, so its records contain only durable decisions. It adds an
// attempt's plan, output and patch, which are not in the journal. Only one value in these files affects decisions: the
// number of paid calls, if a person has edited it in a task's stats.json while the director was stopped.
package record
