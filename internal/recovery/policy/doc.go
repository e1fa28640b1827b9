// Package policy turns a finding into a verdict. A policy is a table from reason and caller to a row, whose
// ladder lists the attempts that are still worth making; guards bound all rows together. The presets are TOML
// documents, and a document of the operator's own may change rows of one.
//
//	Decide (decide.go) ─ row (policy.go) ─ rung (ladder.go) ─ delay (decide.go) ─ guards (guard.go)
//
// Invariant: Decide never grants a retry that the tally has no room for, nor a wait beyond its cap, nor one
// shorter than a stated wait that the row honours. Failure policy: a document is refused as a whole, with all
// its faults by line; the engine bounds what a policy forgets to bound. Imports: the standard library, packages
// recovery, spelling and tomlfile.
package policy
