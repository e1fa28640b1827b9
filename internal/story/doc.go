// Package story is the read model: what has happened to every issue, and where each stands, as the journal has it.
//
//	journal, archived and live ──▶ Book.Add ──▶ Book ──┬─▶ Story   director explain, a task's page
//	each durable batch ───────────▶                    ├─▶ Event   director events, the page's news
//	                                                   └─▶ Row     director tasks, the board
//
// A Book follows the facts with a machine of its own. Everything that people are shown comes from it; nothing
// is decided by it.
//
// # Invariants
//
//   - The same records give the same book, whenever and by whom they are read.
//   - An event is known by its place in the journal for ever (ID).
//   - What a book keeps is bounded: see Limits. What it has dropped is still in the journal, and another book can be made of that.
//   - Texts are as they were journaled. Whoever prints them makes them harmless for where they are shown.
//
// # Clock
//
// The times are those of the records. Questions about now are given the time.
package story
