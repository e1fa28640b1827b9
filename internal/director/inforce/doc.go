// Package inforce holds the configuration that a running director works by.
//
// A Setup is a configuration and everything derived from it. It never changes; a changed configuration is
// another Setup, which Current puts in force as a whole. Code that needs more than one value takes one Setup
// and keeps it, so that it never sees half of a change.
package inforce
