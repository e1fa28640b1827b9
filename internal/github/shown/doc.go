// Package shown leaves of a text what a person sees of it on GitHub: what reaches an agent, people must have
// been able to read.
//
// Markdown is read as a syntax tree. Taken out is what its page does not show: comments of HTML, also where
// they are never closed, definitions of links that nothing refers to, notes that nothing refers to, the titles
// of links and images, descriptions of images that are longer than a caption, attributes of HTML, and
// characters without a shape, also where an entity names them. What is folded (<details>) is shown, and so is
// all code. Nothing else is changed, down to the last byte.
//
// The package has no state, and reads nothing.
package shown
