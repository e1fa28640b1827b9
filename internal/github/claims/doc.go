// Package claims makes, shows and ends claims of issues. The claim comment is the lock; see package github.
package claims
