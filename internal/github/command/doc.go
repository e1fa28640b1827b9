// Package command parses commands in comments, such as "/agent retry". It does no I/O and has no state.
package command
