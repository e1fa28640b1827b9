// Package retryafter reads how long to wait: from a worker's own field, from rate-limit headers of any provider, and
// from times as programs print them.
//
// Evidence.At is the only clock. Without it, spans are read but not moments. The time zone database is embedded, so
// that a zone's name means the same everywhere. Invariant: a wait is between 0 and recovery.LongestWait for any input.
// Imports: the standard library, packages recovery and plaintext.
package retryafter
