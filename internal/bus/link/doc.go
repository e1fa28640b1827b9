// Package link has the conventions that both sides of the bus share: how a client signs in, trusts and reconnects,
// how long it waits for an answer, and which errors of NATS say nothing about the data. It must not link a server.
package link
