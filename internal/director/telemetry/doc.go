// Package telemetry exports the spans of tasks to an OpenTelemetry collector. A Follower derives them from the journal,
// an Exporter hands them to a bounded queue, and nobody waits for the collector. A nil Exporter or Follower is off.
package telemetry
