// Package effects carries out the effects of fsm. Each family of executors is a type, and its fields are its only
// dependencies.
//
// # Invariants
//
//   - An executor may run again after a restart, so it first detects the results of an earlier run.
//   - An executor changes the machine only through its result, which becomes an event.
//   - A checkout has one owner at a time, the director or an attempt. See Checkouts.
//
// # Failure policy
//
// An executor translates errors with package failure. The machine decides whether and when to retry.
package effects
