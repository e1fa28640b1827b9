// Package record writes what people read about a run later: audits of attempts, telemetry, the state of tasks, and
// the log of decisions.
// A Recorder follows the journal, so it shows exactly what became durable. It adds an attempt's plan, output and
// patch, which the journal lacks. The director reads back only one value: the number of paid calls, if a person has
// edited it in a task's stats.json while no director ran.
package record
