package redact

import (
	"bytes"
	"io"
	"regexp"
)

const (
	// holdMost is how many bytes of an unfinished line are held back before they are passed on.
	holdMost = 8 << 10
	// holdLeast is what is held back of a very long line at least, so that no pattern is cut in two.
	holdLeast = 512
)

// Writer redacts a stream before it goes on. A secret may arrive in pieces, so it works on whole lines; of a line longer than
// holdMost it holds back as much as the longest secret can be. It is not safe for concurrent use.
type Writer struct {
	to    io.Writer
	by    *Redactor
	held  []byte
	inKey bool // between the fences of a private key
}

// NewWriter returns a Writer that passes on to another one. End it with Flush.
func (r *Redactor) NewWriter(to io.Writer) *Writer { return &Writer{to: to, by: r} }

// Write never fails: a problem with the copy must not disturb the program that writes.
func (w *Writer) Write(p []byte) (int, error) {
	w.held = append(w.held, p...)
	for {
		line, rest, whole := bytes.Cut(w.held, []byte("\n"))
		if !whole {
			break
		}
		w.pass(w.held[:len(line)+1])
		w.held = rest
	}
	if keep := max(w.by.longest(), holdLeast); len(w.held) > holdMost+keep {
		safe := []byte(w.by.values(string(w.held)))
		if cut := len(safe) - keep; cut > 0 {
			w.pass(safe[:cut])
			safe = safe[cut:]
		}
		w.held = safe
	}
	return len(p), nil
}

// Flush passes on what was held back: the stream has ended.
func (w *Writer) Flush() {
	w.pass(w.held)
	w.held = nil
}

// The fences of a private key whose lines arrive one by one.
var (
	keyBegin = regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----`)
	keyEnd   = regexp.MustCompile(`-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----`)
)

func (w *Writer) pass(line []byte) {
	isFence := bytes.Contains(line, []byte("PRIVATE KEY"))
	switch {
	case len(line) == 0:
	case w.inKey:
		w.inKey = !isFence || !keyEnd.Match(line)
	case isFence && keyBegin.Match(line) && !keyEnd.Match(line):
		w.inKey = true
		before := line[:keyBegin.FindIndex(line)[0]]
		_, _ = io.WriteString(w.to, w.by.Text(string(before))+Marker+"\n")
	default:
		_, _ = io.WriteString(w.to, w.by.Text(string(line)))
	}
}
