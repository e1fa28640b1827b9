// Package timeline is the read model. It provides the history and the current state of every issue, as recorded in the
// journal.
//
//	journal, archived and live ──▶ Book.Apply ──▶ Book ──┬─▶ Task   director explain, a task's page
//	each durable batch ───────────▶                      ├─▶ Event   director events, the page's news
//	                                                     └─▶ Rows    director tasks, the board
//
// A Book applies the facts to a separate machine. All task data shown to people comes from a Book, and the director
// does not use it for decisions.
//
// # Invariants
//
//   - The same records produce the same book, regardless of time and reader.
//   - An event's place in the journal identifies it permanently (ID).
//   - The size of a book is bounded; see Limits. Dropped events are still in the journal, from which a larger book can
//     be built.
//   - Texts are kept as journaled. Code that displays one must escape it for its medium.
//
// # Clock
//
// Times come from the records. Callers pass the current time if a question depends on it.
package timeline
