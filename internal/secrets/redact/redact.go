package redact

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Marker replaces a secret.
const Marker = "[REDACTED]"

const (
	// shortestValue is the minimum length of known values, in bytes. Shorter values occur in ordinary text, and
	// replacing them would destroy evidence (a password "test" would blank the name of every test).
	shortestValue = 6
	// shortestHalf is the minimum length of a part of a known value that Cut recognises at the edge of a text.
	shortestHalf = 8
)

// Redactor replaces secrets. It is safe for concurrent use.
type Redactor struct {
	known     *strings.Replacer
	spellings []string // spellings of the known values, longest first
	finder    Finder   // may be nil
}

// Finder finds values in every encoding. Package leak implements it.
type Finder interface {
	Mask(text string) string
	// Edges returns the number of bytes at the front of the text that may be the tail of a truncated value, and the
	// position near the end where a truncated value may start.
	Edges(text string) (front, end int)
	Stream() Stream
}

// Stream masks values in a text that arrives in pieces. It holds back text that may be the start of a value.
type Stream interface {
	Pass(text string) string
	Flush() string
}

// With returns a copy of the Redactor that uses f to find known values.
func (r *Redactor) With(f Finder) *Redactor {
	with := *r
	with.finder = f
	return &with
}

// New returns a Redactor that knows these values. It also recognises the individual lines of a multi-line value.
func New(values ...string) *Redactor {
	r := &Redactor{}
	for _, v := range values {
		for _, part := range append(strings.FieldsFunc(v, func(c rune) bool { return c == '\n' || c == '\r' }), v) {
			if part = strings.TrimSpace(part); len(part) >= shortestValue {
				r.spellings = append(r.spellings, spellings(part)...)
			}
		}
	}
	// Longest first, because a Replacer takes the first entry that matches.
	slices.SortFunc(r.spellings, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	r.spellings = slices.Compact(r.spellings)
	pairs := make([]string, 0, 2*len(r.spellings))
	for _, s := range r.spellings {
		pairs = append(pairs, s, Marker)
	}
	r.known = strings.NewReplacer(pairs...)
	return r
}

func spellings(v string) []string {
	quoted := strconv.Quote(v)
	inJSON, _ := json.Marshal(v) // cannot fail for a string
	return []string{
		v, quoted[1 : len(quoted)-1], string(inJSON[1 : len(inJSON)-1]), url.QueryEscape(v), url.PathEscape(v),
		base64.StdEncoding.EncodeToString([]byte(v)), base64.RawStdEncoding.EncodeToString([]byte(v)),
		base64.RawURLEncoding.EncodeToString([]byte(v)),
		base64.StdEncoding.EncodeToString([]byte("x-access-token:" + v)), // git over HTTP
	}
}

// Text redacts one complete piece of text.
func (r *Redactor) Text(text string) string { return masked(r.values(text), all()) }

// Cut redacts text after a ring buffer or a limit has removed its beginning or end, possibly in the middle of a secret.
func (r *Redactor) Cut(text string) string {
	text = r.CutFront(text)
	if r != nil && r.finder != nil {
		if _, end := r.finder.Edges(text); end < len(text) {
			text = text[:end] + Marker
		}
	}
	if r != nil {
		for _, s := range r.spellings {
			text = cutEnd(text, s)
		}
	}
	return masked(text, all())
}

// CutFront redacts known values in text after its beginning was removed, possibly in the middle of a value. It does not
// look for partial values at the end, because more text follows.
func (r *Redactor) CutFront(text string) string {
	text = r.values(text)
	if r != nil && r.finder != nil {
		if front, _ := r.finder.Edges(text); front > 0 {
			text = Marker + text[front:]
		}
	}
	if r != nil {
		for _, s := range r.spellings {
			text = cutFront(text, s)
		}
	}
	return text
}

// Text redacts secrets by their shapes and names. Redactor.Text also redacts known values.
func Text(text string) string { return masked(text, all()) }

func (r *Redactor) values(text string) string {
	if r == nil {
		return text
	}
	if r.finder != nil {
		text = r.finder.Mask(text)
	}
	return r.spelled(text)
}

// spelled replaces the spellings of known values, unless the Redactor has a Finder for them.
func (r *Redactor) spelled(text string) string {
	if r == nil || r.finder != nil {
		return text
	}
	return r.known.Replace(text)
}

// Find returns the position and spelling of the first known value in a text, or -1.
func (r *Redactor) Find(text string) (at int, written string) {
	at = -1
	if r == nil {
		return at, ""
	}
	for _, s := range r.spellings {
		if i := strings.Index(text, s); i >= 0 && (at < 0 || i < at) {
			at, written = i, s
		}
	}
	return at, written
}

// longest returns the length of the longest spelling, which is the number of bytes to hold back from a stream.
func (r *Redactor) longest() int {
	if r == nil || len(r.spellings) == 0 {
		return 0
	}
	return len(r.spellings[0])
}

func cutFront(text, secret string) string {
	for n := min(len(secret)-1, len(text)); n >= shortestHalf; n-- {
		if strings.HasPrefix(text, secret[len(secret)-n:]) {
			return Marker + text[n:]
		}
	}
	return text
}

func cutEnd(text, secret string) string {
	for n := min(len(secret)-1, len(text)); n >= shortestHalf; n-- {
		if strings.HasSuffix(text, secret[:n]) {
			return text[:len(text)-n] + Marker
		}
	}
	return text
}

// literal is a string in a JSON document.
var literal = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// JSON redacts the strings of a JSON document, such as a log line. The result is still valid JSON.
func (r *Redactor) JSON(document string) string {
	return literal.ReplaceAllStringFunc(document, func(quoted string) string {
		var s string
		if json.Unmarshal([]byte(quoted), &s) != nil {
			return quoted
		}
		clean := r.Text(s)
		if clean == s {
			return quoted
		}
		out, _ := json.Marshal(clean) // cannot fail for a string
		return string(out)
	})
}
