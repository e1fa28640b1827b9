// Command peers measures how many failed jobs per second two well-known job queues accept and durably schedule for a
// retry. It prints the results next to our own figure from the same run of `make bench`. run.sh starts and stops the
// servers.
//
//	1 KiB jobs ──▶ taken ──▶ their handler returns an error ──▶ the retry, in an hour, is durable
//
// The clock starts when a queue starts, which takes a few milliseconds, and stops when the last job's retry is durable.
// Publishing is not counted. Each queue gets its best conditions: its server on a Unix socket, no pause between
// fetches, and the fastest of several concurrencies. An asynq server takes jobs one at a time, and a program normally
// has one server. The results for several servers in one process are therefore also shown.
//
// The command is a separate Go module, so that Retake does not depend on the measured queues.
package main
