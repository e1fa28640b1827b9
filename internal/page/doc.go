// Package page serves the web page of a running director: the board, the timeline of each task with its live output,
// the numbers, the state machine and the decision tables. The package itself only reads. Every action is an operator
// command, and requires a signed-in user.
//
//	browser ──GET──▶ Page ──Source──▶ read model (internal/timeline), output, tables
//	   ▲               │
//	   └──events───────┘  each part is rendered once per change and at most once a second, for all viewers;
//	                      a full page load renders it once more
//
// # Invariants
//
//   - Viewers never block the director's owner goroutine.
//   - The page works without network access. Styles and scripts are embedded, and the content security policy
//     forbids all others.
//   - Everything written by issues, workers and people is treated as text. Package html/template escapes it, and
//     output reaches the page as text, never as HTML.
//   - Actions require a token. Off loopback, reading also requires a token.
//   - An open page stops updating within seconds after its user signs out or the session expires.
//   - Submitting a form twice executes one command.
//   - Cross-site requests from a signed-in browser are refused (http.CrossOriginProtection, and SameSite=Strict
//     cookies).
//
// # Failure policy
//
// If a source cannot answer, the page shows the error and retries.
package page
