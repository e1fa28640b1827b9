// Package policy turns a finding into a verdict. A policy maps reason and caller to a row. The row's ladder lists the
// remaining attempts, and guards bound all rows together. The presets are TOML documents, and the operator's document
// may change rows of a preset.
//
//	Decide (decide.go) ─ row (policy.go) ─ rung (ladder.go) ─ delay (decide.go) ─ guards (guard.go)
//
// Invariant: Decide never grants a retry beyond the tally, a wait above its cap, or a wait shorter than a stated wait
// that the row honours. Failure policy: a faulty document is refused completely, with line numbers for all faults. The
// engine adds missing bounds. Imports: the standard library, packages recovery, spelling and tomlfile.
package policy
