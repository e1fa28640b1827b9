// Package gitwords maps messages of git and of git servers to meanings, because git reports failures only as text. The
// workspace uses the table for the git that it runs, and the classifier for the output of agents and checks.
//
// # Invariants
//
//   - Each row has one reason, and both readers give that reason for its examples. Their tests run every row.
//   - Git must run with LC_ALL=C.
//   - Words that the table lacks are Unknown. They never claim damage.
//
// The package is pure and imports only the standard library. Reasons are strings, because the adapter that runs git
// must not depend on the director's decisions.
package gitwords
