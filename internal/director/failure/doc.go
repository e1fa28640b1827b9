// Package failure translates errors of GitHub, git, the bus, the disk and the container engine for the machine, and
// paces retries.
package failure
