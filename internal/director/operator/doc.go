// Package operator defines the protocol of the operator's socket, and its client. The client queries the director of
// a data directory. The package does not depend on the director, so commands, the demo and tests can use it without
// the director. The director that serves the socket uses the same types. A request fails with ErrNotThere if no
// director listens, with a *RefusedError if the director refuses it, and otherwise with the reason for the missing
// answer.
package operator
