// Package view keeps the read model of a director that runs. The owner hands over each batch that became durable, and
// never waits: what the queue has no room for is read from the journal.
package view
