// Package command reads commands in comments, such as "/agent retry". It is pure.
package command
