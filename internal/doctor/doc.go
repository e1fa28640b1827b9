// Package doctor looks, before a director runs, whether anything is in its way: one finding for each thing that
// it looked at, with what to do about it.
//
// # Invariants
//
// One table (checks.go) has a row for each check, with what the check needs: files and variables only, this
// machine, GitHub, or the container engine. The order of the rows is the order of the findings. A check that
// cannot be made says so and why (NotTried); it is never left out in silence.
//
// Nothing is changed: GitHub is only read, and what is put up for a moment, such as a container that looks from
// inside, is gone when Examine returns.
//
// # Clock
//
// Machine.Now, which is compared with GitHub's.
//
// # Failure policy
//
// Nothing is retried, and no check ends the others: what fails is a finding. A check has a minute, unless its
// row says more.
//
// # Imports
//
// config, whose checks it shows. What it looks at comes through the interfaces of World; internal/director
// joins them with the adapters.
package doctor
