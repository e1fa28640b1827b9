// Package shown removes the parts of a text that a person does not see on GitHub. An agent must get only text that
// people could read.
//
// The package parses Markdown into a syntax tree. It removes:
//
//   - HTML comments, even unclosed ones, and HTML attributes
//   - unused definitions of links and footnotes
//   - titles of links and images
//   - descriptions of images that are longer than a caption
//   - invisible characters, including entities for them
//
// Folded text (<details>) and all code are preserved. All other bytes are unchanged.
//
// The package has no state and does no I/O.
package shown
