// Package retryafter determines how long to wait before the next attempt. It parses a field set by the worker, the
// rate-limit headers of any provider, and times printed by programs.
//
// Evidence.At is the only clock. If it is zero, the package uses durations, but ignores points in time. The time zone
// database is embedded, so that a zone's name means the same everywhere. Invariant: a wait is between 0 and
// recovery.LongestWait for any input. Imports: the standard library, packages recovery and plaintext.
package retryafter
