// Command peers measures how many failed jobs per second two well-known job queues take and durably schedule
// for another try, and prints that beside our own figure for the same thing, which `make bench` has measured in
// the same run. run.sh starts the servers that it needs, and ends them.
//
//	jobs of 1 KiB are published ──▶ taken ──▶ their handler returns an error ──▶ the next try, an hour ahead, is durable
//
// A queue's clock runs from its start, which is some milliseconds, until the last job's retry is durable;
// publishing is not counted. Each is measured in the way that is best for it: its server on a Unix socket, no
// pause between fetches, and of several concurrencies the fastest. asynq takes jobs one after the other in each
// of its servers, of which a program has one; what several of them in one process do is shown, too.
//
// It is a Go module apart from the main one, so that the queues it measures are not among the dependencies of Retake.
package main
