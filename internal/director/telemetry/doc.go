// Package telemetry exports the spans of tasks to an OpenTelemetry collector. A Follower derives the spans from the
// journal, and an Exporter puts them in a bounded queue. Neither waits for the collector. A nil Exporter or Follower
// does nothing.
package telemetry
