package loglines

import (
	"strings"
	"unicode/utf8"

	"retake/internal/recovery/plaintext"
)

// Level is the severity that a program assigned to a line.
type Level uint8

// The levels. A line below Error is only advisory.
const (
	None Level = iota // the line does not state a level
	Trace
	Debug
	Info
	Warning
	Error
)

// Advises reports whether a line of this level describes an intermediate event rather than the reason why the program
// gave up.
func (l Level) Advises() bool { return None < l && l < Error }

// levelWords is a regular expression for the level names of syslog and of loggers for Python, Java, Go, Rust and
// JavaScript.
const levelWords = `(?i:trace|silly|finest|finer|fine|debu?g?|dbg|verb(?:ose)?|info?|information|notice|warn(?:ing)?|wrn|erro?r?|fatal?|ftl|crit(?:ical)?|d?panic|severe|emerg(?:ency)?|alert|fail)`

// isLevel reports whether levelWords matches the whole word.
func isLevel(word string) bool {
	switch strings.ToLower(word) {
	case "deb", "debg", "errr":
		return true
	case "default", "informational":
		return false
	}
	return levelOf(word) != None
}

// findLevel finds a level delimited by blanks, tabs or bars, as most loggers write it after a time.
func findLevel(rest string) (at []int, ok bool) {
	begin := len(rest) - len(skip(rest, " \t|"))
	end := begin
	for end < len(rest) && plaintext.IsLetter(rest[end]) {
		end++
	}
	if end < len(rest) && rest[end] >= utf8.RuneSelf { // the character may be part of a level
		return nil, false
	}
	c := timeCursor{s: rest, i: end}
	if !isLevel(rest[begin:end]) {
		return nil, true
	}
	if c.byte(" \t"); !c.byte("|") || !c.byte(" \t") {
		if c.i = end; !c.byte(" \t") {
			return nil, true
		}
	}
	return []int{0, c.i, begin, end}, true
}

// levelOf returns the level named by a word, or None.
func levelOf(word string) Level {
	switch strings.ToLower(word) {
	case "trace", "silly", "finest", "finer", "fine":
		return Trace
	case "debug", "debu", "dbg", "verbose", "verb", "default":
		return Debug
	case "info", "inf", "information", "informational", "notice":
		return Info
	case "warn", "warning", "wrn":
		return Warning
	case "error", "erro", "err", "fatal", "fata", "ftl", "critical", "crit", "panic", "dpanic", "severe", "emergency",
		"emerg", "alert", "fail":
		return Error
	}
	return None
}

// levelOfNumber returns the level that a number stands for in pino or bunyan, or None.
func levelOfNumber(n float64) Level {
	switch {
	case n < 10 || n > 100:
		return None
	case n < 20:
		return Trace
	case n < 30:
		return Debug
	case n < 40:
		return Info
	case n < 50:
		return Warning
	}
	return Error
}

// letterLevel returns the level that a line's first letter stands for in glog or Ruby.
func letterLevel(c byte) Level {
	switch c {
	case 'D':
		return Debug
	case 'I':
		return Info
	case 'W':
		return Warning
	}
	return Error
}
