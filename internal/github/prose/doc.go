// Package prose writes other people's words so that they do nothing on GitHub: they notify nobody, refer to
// nothing, link nowhere, load nothing, and end where they end.
//
// Blocks and Line are for comments and bodies. They read Markdown into goldmark's syntax tree and write it anew
// from there: text, code, lists, quotations and tables, and emphasis that cannot be misread. Everything else
// becomes text: links and images show their address as code, HTML is shown as it was written, headings are
// paragraphs. What GitHub looks for in text after Markdown (mentions, references, addresses, formulas) is
// parted by a character of no width, or written as code, where GitHub does not look.
//
//	words ── parse ──► tree ── write ──► Markdown of ours ── GitHub ──► text and code
//
// Plain is for titles and messages of commits, which are no Markdown: there, too, no word is left that closes
// an issue or skips a check.
//
// # Invariants
//
//   - What is written is never longer than asked for, and never cut within code, or behind an escape.
//   - No pattern is applied to Markdown: patterns see what a tree's text says, with its escapes and entities resolved.
//
// No clock, no I/O, no goroutine. Imports: goldmark and the standard library.
package prose
