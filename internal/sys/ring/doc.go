// Package ring keeps the newest bytes of a stream: the tails of what workers, containers and git print. It is
// safe for concurrent use, never fails and never blocks, because nothing that prints may wait for who reads. It
// imports the standard library only.
package ring
