// Package page is what a browser shows of a running director: the board, the story of each task with its live
// output, the numbers, the state machine, and the tables that decide. It only reads; actions are the operator's
// commands, for who has signed in.
//
//	browser ──GET──▶ Page ──Source──▶ read model (internal/story), output, tables
//	   ▲               │
//	   └──events───────┘  a part is drawn once per change, at most once a second, for all who look at it; who loads a page has it drawn once more
//
// # Invariants
//
//   - Nothing that the page shows makes the director's owner wait, however many look at it.
//   - A page is whole without network: styles and scripts are the program's own, and the content security policy allows no other.
//   - What issues, workers and people write is text: html/template escapes it, and output reaches the page as text, never as HTML.
//   - Without a token nobody can act. Off loopback nobody sees anything without one.
//   - Who has signed out, or whose session has ended, is told of nothing more within some seconds, on a page that is open, too.
//   - A form that is sent twice is one command.
//   - A request that another site makes in a signed-in browser is refused (http.CrossOriginProtection, and cookies that are SameSite=Strict).
//
// # Failure policy
//
// A source that cannot answer is said on the page, which asks again by itself.
package page
