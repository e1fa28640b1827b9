// Package intake turns GitHub's answers into events for the machine: polls, webhooks, comments and reviews.
//
// This package does not make decisions. A webhook only triggers a poll, and the machine decides about the result. The
// next regular poll makes up for a lost webhook.
package intake
