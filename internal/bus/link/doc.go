// Package link contains the code that the director and the worker share as clients of the bus: signing in, trusting a
// certificate, reconnecting, timeouts, and the NATS errors after which a message may or may not be stored. It must not
// import the NATS server, because the worker links this package.
package link
