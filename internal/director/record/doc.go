// Package record writes the records of a run that people read later: audits of attempts, telemetry, the state of tasks,
// and the log of decisions. A Recorder follows the journal, so it shows exactly the durable decisions. It adds an
// attempt's plan, output and patch, which the journal lacks. Only one value in these files affects decisions: the
// number of paid calls, if a person has edited it in a task's stats.json while the director was stopped.
package record
