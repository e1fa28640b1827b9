// Package intake turns what the world says into events for the machine: polls of GitHub, webhooks, comments, reviews,
// and what workers send on the bus.
//
// Nothing here decides. A webhook only says where to look, a hint of the runtime only asks for its list, and the
// machine judges what was seen. Whatever is lost is seen by the next poll.
package intake
