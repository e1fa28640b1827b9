// Package link has conventions of both sides of the bus. It covers signing in, trust, reconnecting, timeouts, and the
// errors of NATS that leave open whether a message was stored. It must not link a server.
package link
