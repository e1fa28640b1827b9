// Package operator defines the protocol of the operator's socket, and its client. The client asks the director that
// runs on a data directory.
//
// The package does not depend on the director, so commands, the demo and tests can use it without one. A director that
// serves the socket shares the types. A request fails with ErrNotThere if no director listens, with a *RefusedError if
// the director refuses it, and otherwise with the reason for the missing answer.
package operator
