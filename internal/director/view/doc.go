// Package view maintains the read model of a running director. The owner queues each durable batch and never waits.
// If the queue is full, the model reads the batch from the journal.
package view
