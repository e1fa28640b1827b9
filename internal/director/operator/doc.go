// Package operator is the protocol of the operator's socket, and its client: what can be asked of a director that
// runs on a data directory, and what it answers.
//
// It knows no director: commands, the demo and tests of the program use it without one. A director that serves the
// socket shares the types. An error of a question is ErrNotThere if nobody listens, a *RefusedError if the director
// answered something else, and otherwise what kept the answer from coming.
package operator
