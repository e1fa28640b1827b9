// Package project works on the contract of a checkout: it finds and checks the contract, proposes one from the
// checkout's build files, and converts the configuration of other orchestrators.
//
// # Invariants
//
// The package does not need a director, a token or a network. It starts programs only in Try. A Draft's text is a valid
// contract if its values are valid.
//
// # Clock
//
// Only Try uses the clock, for its time limit.
//
// # Concurrency
//
// The package does not start goroutines. All functions are safe for concurrent use.
//
// # Failure policy
//
// The package never retries. A proposed command that fails becomes a comment in the contract, with its error.
package project
