// Package claims makes claims on issues, updates their comments, and ends them. The claim comment is the lock; see
// package github.
package claims
