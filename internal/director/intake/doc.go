// Package intake turns input from outside into events for the machine: polls of GitHub, webhooks, comments, reviews,
// and messages that workers send on the bus.
//
// Nothing here decides. A webhook only says where to poll, a hint of the runtime only triggers its list, and the
// machine judges the result. The next poll finds everything that was lost on the way.
package intake
