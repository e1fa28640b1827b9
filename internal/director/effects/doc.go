// Package effects carries out the effects of fsm: each family of executors is a type whose fields are all that it uses.
//
// # Invariants
//
//   - An executor may run again after a restart, so each one finds what an earlier try has done.
//   - What an executor returns becomes an event. It changes no other state of the machine.
//   - A checkout belongs either to the director or to the attempt that runs on it, never to both: see Checkouts.
//
// # Failure policy
//
// An executor returns what package failure makes of an error; the machine decides whether and when it runs again.
package effects
