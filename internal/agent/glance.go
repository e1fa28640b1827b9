package agent

import (
	"strings"

	"retake/internal/recovery/plaintext"
)

// isQuote reports whether a trimmed line is an event that only quotes text, that is, an event other than an error or a
// result. Most events only quote text, so isQuote checks the line without decoding it. If isQuote returns false, the
// caller must decode the line.
func isQuote(line string) bool {
	if len(line) < 2 || line[0] != '{' || plaintext.HasControl(line) {
		return false
	}
	g := glance{s: line}
	return g.object(0, topObject) && g.i == len(line) && isQuoteKind(g.kind)
}

// isQuoteKind reports whether events of this kind only quote text, as long as none of their fields contradicts it.
func isQuoteKind(kind string) bool {
	return isKind(kind) && kind != "result" && kind != "turn.completed" && !isErrorKind(kind) && !isErrorName(kind) &&
		!strings.Contains(kind, "retry") && !strings.Contains(kind, "limit")
}

// glance checks JSON without decoding it. It rejects all input that encoding/json rejects, and some rare valid forms.
type glance struct {
	s    string
	i    int
	kind string // "type" of the outermost object
}

// whose identifies the object that a field belongs to.
type whose int

const (
	anyObject whose = iota
	topObject
	eventObject   // the event inside the outermost object
	messageObject // the message of an error or result
)

// maxGlance limits the nesting of an object.
const maxGlance = 32

// object checks the object at the current position, including the fields that determine the outermost object's kind.
func (g *glance) object(depth int, of whose) bool {
	if depth == maxGlance {
		return false
	}
	g.i++
	if g.next() == '}' {
		g.i++
		return true
	}
	for {
		if g.next() != '"' {
			return false
		}
		key, plain, ok := g.text()
		if !ok || of != anyObject && !plain || g.next() != ':' {
			return false
		}
		g.i++
		if g.next(); !g.field(key, depth, of) {
			return false
		}
		switch g.next() {
		case ',':
			g.i++
		case '}':
			g.i++
			return true
		default:
			return false
		}
	}
}

// field checks a field's value. It also returns false if the value may show that the event does more than quote text.
func (g *glance) field(key string, depth int, of whose) bool {
	switch of {
	case anyObject:
		return g.value(depth, anyObject)
	case messageObject:
		return key != "errorMessage" && g.value(depth, anyObject)
	}
	switch key {
	case "is_error", "error", "object", "finishReason", "errorMessage", "finalError", "result", "permission_denials",
		"level", "@level", "log.level", "lvl", "levelname", "severity", "test", "testID":
		return false
	case "event":
		return of == topObject && g.value(depth, eventObject)
	case "message":
		return g.value(depth, messageObject)
	case "type", "status", "subtype":
		if g.peek() != '"' {
			return key != "type" && g.value(depth, anyObject)
		}
		word, plain, ok := g.text()
		if !ok || !plain {
			return false
		}
		if key == "type" && of == topObject {
			twice := g.kind != ""
			g.kind = word
			return !twice
		}
		return !isErrorKind(word) && !strings.Contains(word, "retry")
	}
	return g.value(depth, anyObject)
}

// value checks the value at the current position. If it is an object, of identifies it.
func (g *glance) value(depth int, of whose) bool {
	switch c := g.peek(); {
	case c == '{':
		return g.object(depth+1, of)
	case c == '[':
		return g.list(depth + 1)
	case c == '"':
		_, _, ok := g.text()
		return ok
	case c == '-' || plaintext.IsDigit(c):
		return g.number()
	}
	for _, word := range [...]string{"null", "true", "false"} {
		if strings.HasPrefix(g.s[g.i:], word) {
			g.i += len(word)
			return true
		}
	}
	return false
}

func (g *glance) list(depth int) bool {
	if depth == maxGlance {
		return false
	}
	g.i++
	if g.next() == ']' {
		g.i++
		return true
	}
	for g.value(depth, anyObject) {
		switch g.next() {
		case ',':
			g.i++
			g.next()
		case ']':
			g.i++
			return true
		default:
			return false
		}
	}
	return false
}

// number checks a number without an exponent. An exponent could overflow a float64, so encoding/json must decide.
func (g *glance) number() bool {
	begin := g.i
	if g.peek() == '-' {
		g.i++
	}
	if whole := g.digits(); whole == "" || len(whole) > 1 && whole[0] == '0' {
		return false
	}
	if g.peek() == '.' {
		g.i++
		if g.digits() == "" {
			return false
		}
	}
	return g.i-begin < maxNumber
}

// maxNumber is the length in bytes below which a number cannot overflow a float64.
const maxNumber = 300

func (g *glance) digits() string {
	begin := g.i
	for plaintext.IsDigit(g.peek()) {
		g.i++
	}
	return g.s[begin:g.i]
}

// text checks the string at the current position and returns its content. plain is true unless it contains escapes.
func (g *glance) text() (in string, plain, ok bool) {
	begin := g.i + 1
	plain = true
	for i := begin; ; {
		n := strings.IndexByte(g.s[i:], '"')
		if n < 0 {
			return "", false, false
		}
		end := i + n
		for i < end {
			n := strings.IndexByte(g.s[i:end], '\\')
			if n < 0 {
				i = end
				break
			}
			size := escapeLen(g.s[i+n:])
			if size == 0 {
				return "", false, false
			}
			plain = false
			i += n + size // past the end if the escape is truncated
		}
		if i == end {
			g.i = end + 1
			return g.s[begin:end], plain, true
		}
	}
}

// escapeLen returns the length of the escape at the start of s, or 0.
func escapeLen(s string) int {
	switch {
	case len(s) > 1 && strings.IndexByte(`"\/bfnrt`, s[1]) >= 0:
		return 2
	case len(s) > 5 && s[1] == 'u' && plaintext.IsHex(s[2]) && plaintext.IsHex(s[3]) && plaintext.IsHex(s[4]) &&
		plaintext.IsHex(s[5]):
		return 6
	}
	return 0
}

// peek returns the next byte, or 0 at the end.
func (g *glance) peek() byte {
	if g.i < len(g.s) {
		return g.s[g.i]
	}
	return 0
}

// next skips spaces and returns the next byte.
func (g *glance) next() byte {
	for g.peek() == ' ' {
		g.i++
	}
	return g.peek()
}
