// Package telemetry exports the spans of tasks to an OpenTelemetry collector. A Follower derives the spans from the
// journal, and an Exporter queues them in limited memory. Neither makes the director wait for the collector. The
// methods of a nil Exporter or Follower do nothing.
package telemetry
