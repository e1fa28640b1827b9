// Package retryafter reads how long to wait before the next attempt. It reads a worker's field, rate-limit headers of
// any provider, and times that programs print.
//
// Evidence.At is the only clock. If it is zero, the package reads durations, but ignores points in time. The time zone
// database is embedded, so that a zone's name means the same everywhere. Invariant: a wait is between 0 and
// recovery.LongestWait for any input. Imports: the standard library, packages recovery and plaintext.
package retryafter
