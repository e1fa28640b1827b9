package redact

import (
	"bytes"
	"io"
	"regexp"
	"strings"
)

const (
	// holdMost is the maximum number of bytes of an unfinished line that a Writer holds back.
	holdMost = 8 << 10
	// holdLeast is the minimum number of bytes that a Writer holds back from a very long line, so that it does not
	// split a match.
	holdLeast = 512
)

// Writer redacts a stream before passing it to the next writer. It works on whole lines, because a secret may arrive in
// pieces. If a line is longer than holdMost, the Writer passes on its beginning, but holds back at least the length of
// the longest spelling. A Writer is not safe for concurrent use.
type Writer struct {
	to    io.Writer
	by    *Redactor
	held  []byte
	inKey bool // between the first and the last line of a private key

	values Stream // nil without a Finder
}

// NewWriter returns a Writer that passes redacted text to another writer. Call Flush at the end.
func (r *Redactor) NewWriter(to io.Writer) *Writer {
	w := &Writer{to: to, by: r}
	if r != nil && r.finder != nil {
		w.values = r.finder.Stream()
	}
	return w
}

// Write never fails, because an error in the redacted copy must not disturb the program that writes.
func (w *Writer) Write(p []byte) (int, error) {
	w.held = append(w.held, p...)
	if end := bytes.LastIndexByte(w.held, '\n') + 1; end > 0 {
		w.passValues(w.held[:end])
		w.held = w.held[end:]
	}
	if keep := max(w.by.longest(), holdLeast); len(w.held) > holdMost+keep {
		safe := []byte(w.by.spelled(string(w.held)))
		if cut := len(safe) - keep; cut > 0 {
			w.passValues(safe[:cut])
			safe = safe[cut:]
		}
		w.held = safe
	}
	return len(p), nil
}

// passLines passes on whole lines one by one, but searches several lines at once, because that is faster.
func (w *Writer) passLines(lines []byte) {
	if w.inKey || bytes.Contains(lines, []byte("PRIVATE KEY")) {
		for line := range bytes.Lines(lines) {
			w.pass(line)
		}
		return
	}
	for line := range strings.Lines(masked(w.by.spelled(string(lines)), all())) {
		_, _ = io.WriteString(w.to, line)
	}
}

// Flush passes the held-back text at the end of the stream.
func (w *Writer) Flush() {
	w.passValues(w.held)
	w.held = nil
	if w.values != nil {
		w.passLines([]byte(w.values.Flush()))
	}
}

// passValues masks known values and passes the lines of the result. It masks first, because a value may be spread over
// lines.
func (w *Writer) passValues(text []byte) {
	if w.values != nil {
		text = []byte(w.values.Pass(string(text)))
	}
	w.passLines(text)
}

// The first and the last line of a private key that arrives line by line.
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
		_, _ = io.WriteString(w.to, masked(w.by.spelled(string(before)), all())+Marker+"\n")
	default:
		_, _ = io.WriteString(w.to, masked(w.by.spelled(string(line)), all()))
	}
}
