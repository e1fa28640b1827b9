// Package policy turns a finding into a verdict. A policy maps reason and caller to a row. The row's ladder lists the
// actions for repeated failures, and guards bound all rows together. The presets are TOML documents, and the
// operator's document may change rows of a preset.
//
//	Decide (decide.go) ─ row (policy.go) ─ step (ladder.go) ─ delay (decide.go) ─ guards (guard.go)
//
// Invariant: Decide never grants a retry beyond the limits on the tally, a wait above its cap, or a wait shorter than a
// stated wait that the row honours. Failure policy: a faulty document is refused as a whole, with line numbers for all
// faults. The engine supplies missing bounds. Imports: the standard library, packages recovery, spelling and tomlfile.
package policy
