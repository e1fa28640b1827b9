// Command peers measures how many failed jobs per second two well-known job queues accept and durably schedule for
// another try. It prints the results next to our own figure from the same run of `make bench`. run.sh starts the
// servers that it needs, and ends them.
//
//	1 KiB jobs ──▶ taken ──▶ their handler returns an error ──▶ the next try, in an hour, is durable
//
// The clock starts when a queue starts, which takes a few milliseconds, and stops when the last job's retry is durable.
// Publishing is not counted. Each queue gets its best conditions: its server on a Unix socket, no pause between
// fetches, and the fastest of several concurrencies. Each asynq server takes jobs one after the other, and a program
// normally has one server. The results for several servers in one process are also shown.
//
// The command is a separate Go module, so that Retake does not depend on the measured queues.
package main
