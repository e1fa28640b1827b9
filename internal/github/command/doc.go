// Package command parses commands in comments, such as "/agent retry". It is stateless, and does not perform I/O.
package command
