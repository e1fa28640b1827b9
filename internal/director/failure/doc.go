// Package failure translates errors from GitHub, git, the bus, the disk and the container engine into reasons that the
// machine understands. It also retries calls with backoff.
package failure
