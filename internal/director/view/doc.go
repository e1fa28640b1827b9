// Package view keeps the read model of a running director. The owner queues each durable batch and never waits.
// Batches that do not fit in the queue are read from the journal.
package view
