// Package failure says what an error of GitHub, git, the bus, the disk or the container engine means to the
// machine, and paces what is tried again.
package failure
