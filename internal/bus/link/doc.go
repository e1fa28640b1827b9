// Package link holds the conventions that both sides of the bus share. It covers signing in, trust, reconnecting,
// timeouts, and the errors of NATS that leave open whether a message was stored. It must not link a server.
package link
