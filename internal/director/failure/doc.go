// Package failure translates errors of GitHub, git, the bus, the disk and the container engine for the machine. It
// also sets the pauses between retries.
package failure
