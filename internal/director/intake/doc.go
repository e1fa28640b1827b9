// Package intake turns polls, webhooks, comments and reviews from GitHub into events for the machine.
//
// This package does not make decisions. A webhook only triggers a poll, and the machine decides how to handle the
// result. The next regular poll makes up for a lost webhook.
package intake
