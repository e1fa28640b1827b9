// Package record writes what people read about a run later: audits of attempts, telemetry, the state of tasks, and
// the log of decisions.
//
// A Recorder follows the journal, so that it shows exactly what became durable. It adds the plan of an attempt, its
// output and its patch, which the journal lacks. The director reads back one value only: the number of paid calls
// that a person has edited in a task's stats.json while no director ran.
package record
