// Package doctor checks the environment before a director starts. Each check yields one finding, and a remedy if
// possible.
//
// # Invariants
//
// One table (checks.go) has a row for each check. The row names its requirement: files and variables only, this
// machine, GitHub, or the container engine. The order of the rows is the order of the findings. A check that cannot run
// yields a NotTried finding with the reason. No check is skipped silently.
//
// The checks do not change anything. They only read from GitHub. Examine removes its temporary resources, such as a
// test container, before it returns.
//
// # Clock
//
// Machine.Now is compared with GitHub's clock.
//
// # Failure policy
//
// The package never retries. A failure becomes a finding and does not stop the remaining checks. A check has a timeout
// of a minute, unless its row sets another limit.
//
// # Imports
//
// It imports config for its validation. Everything else comes through the interfaces of World, which internal/director
// implements with the adapters.
package doctor
