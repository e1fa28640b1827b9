// Package prompts checks and renders the prompt template of a repository, a Go text/template.
//
// Invariants: a template cannot change how other people's text is quoted. Its own text, its steps and its result are
// bounded. The package is separate from agent, so that the worker does not contain text/template.
package prompts
