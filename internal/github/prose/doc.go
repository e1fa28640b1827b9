// Package prose renders untrusted text without side effects on GitHub. The text cannot notify people, refer to issues,
// link, load resources, or change the text after it.
//
// Blocks and Line are for comments and bodies. They parse Markdown into goldmark's syntax tree and write new Markdown
// from the tree, with text, code, lists, quotations, tables and unambiguous emphasis. Everything else becomes text.
// Links and images show their URLs as code, HTML is shown as written, and headings become paragraphs. After it has
// parsed Markdown, GitHub searches the text for mentions, references, URLs and formulas. The package splits them with a
// zero-width character, or writes them as code, which GitHub does not search.
//
//	words ── parse ──► tree ── write ──► safe Markdown ── GitHub ──► text and code
//
// Plain is for titles and commit messages, which are not Markdown. It also removes words that close an issue or skip a
// check.
//
// # Invariants
//
//   - The output never exceeds the limit, and is never cut within code or right after an escape.
//   - Regular expressions match the text in the tree, with its escapes and entities resolved. They never match
//     Markdown.
//
// No clock, no I/O, no goroutine. Imports: goldmark and the standard library.
package prose
