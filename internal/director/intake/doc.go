// Package intake turns GitHub's answers into events for the machine: polls, webhooks, comments and reviews.
//
// Nothing here decides. A webhook only says where to poll, and the machine judges the result. The next poll makes up
// for losses.
package intake
