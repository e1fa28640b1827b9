// Package ring keeps the newest bytes of a stream, for the output of workers, containers and git. It is safe for
// concurrent use, never fails and never blocks, because a writer must not wait for a reader. It imports only the
// standard library.
package ring
