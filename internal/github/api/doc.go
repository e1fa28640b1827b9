// Package api sends requests to GitHub with one credential: a token or a GitHub App. Every request waits at the gate,
// carries the current token, and is conditional if its last answer had an ETag. A failure is an *Error, whose Kind
// determines how the caller reacts.
package api
