package agent

import (
	"strings"

	"retake/internal/recovery/plaintext"
)

// isQuote reports whether a line, which is trimmed, is an event that only quotes: an object whose fields state
// its kind, and neither an error nor a result. Nearly all events are such; they are checked, but not decoded.
// False: decode it, to know.
func isQuote(line string) bool {
	if len(line) < 2 || line[0] != '{' || plaintext.HasControl(line) {
		return false
	}
	g := glance{s: line}
	return g.object(0, topObject) && g.i == len(line) && isQuoteKind(g.kind)
}

// isQuoteKind reports whether events of a kind only quote, if no field speaks against it.
func isQuoteKind(kind string) bool {
	return isKind(kind) && kind != "result" && kind != "turn.completed" && !isErrorKind(kind) &&
		!strings.Contains(kind, "retry") && !strings.Contains(kind, "limit")
}

// glance checks JSON. What encoding/json would refuse it refuses, and all that is seldom, too.
type glance struct {
	s    string
	i    int
	kind string // "type" of the whole
}

// whose tells whose fields an object holds.
type whose int

const (
	anyObject whose = iota
	topObject
	eventObject   // the event that the whole wraps
	messageObject // of either
)

// maxGlance is how deep an object may be.
const maxGlance = 32

// object checks the object that begins here, and its fields if they may tell what the whole is.
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

// field checks a value. False also for one that may tell more than that the event quotes.
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

// value checks the value that begins here; an object holds fields of what of says.
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

// number checks a number without an exponent: with one it may be too large for a float64, and is left to encoding/json.
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

// maxNumber is how long a number may be, in bytes, that is certainly none too large for a float64.
const maxNumber = 300

func (g *glance) digits() string {
	begin := g.i
	for plaintext.IsDigit(g.peek()) {
		g.i++
	}
	return g.s[begin:g.i]
}

// text checks the text that begins here, and returns what stands in it, which is plain without escapes.
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
			i += n + size // past the end, if that is a part of an escape
		}
		if i == end {
			g.i = end + 1
			return g.s[begin:end], plain, true
		}
	}
}

// escapeLen is the length of the escape that s begins with; 0: it is none.
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

// peek is the next byte; 0: there is none.
func (g *glance) peek() byte {
	if g.i < len(g.s) {
		return g.s[g.i]
	}
	return 0
}

// next is the next byte that is no blank.
func (g *glance) next() byte {
	for g.peek() == ' ' {
		g.i++
	}
	return g.peek()
}
