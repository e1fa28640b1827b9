// Package claims makes claims of issues, updates their comments, and ends them. The claim comment is the lock; see
// package github.
package claims
