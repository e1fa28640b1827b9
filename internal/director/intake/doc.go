// Package intake turns what GitHub says into events for the machine: polls, webhooks, comments and reviews.
//
// Nothing here decides. A webhook only says where to poll, and the
// machine judges the result. The next poll finds everything that was lost on the way.
package intake
