// Package gitwords interprets the error messages of git and git servers, because git reports failures only as text.
// Package workspace uses the table to interpret the output of its git commands, and package classify uses it to
// interpret the output of agents and checks.
//
// # Invariants
//
//   - Each row has one reason, and both packages find that reason for the row's examples. Their tests check every row.
//   - Git must run with LC_ALL=C, because the table contains only English messages.
//   - A message that matches no row is Unknown, and does not count as a damaged repository.
//
// The package is pure and imports only the standard library. Reasons are strings, because the adapter that runs git
// must not depend on the director's decisions.
package gitwords
