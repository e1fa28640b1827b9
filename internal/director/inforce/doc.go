// Package inforce holds the configuration that a running director uses.
//
// A Setup is a configuration with everything derived from it, and is immutable. A changed configuration becomes a new
// Setup, which Current puts in force as a whole. Code that needs several values must load one Setup for all of them,
// so that it never sees half of a change.
package inforce
