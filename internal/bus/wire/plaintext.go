package wire

import (
	"unicode/utf16"
	"unicode/utf8"
)

// This file contains the part of plain that reads names and strings.

// key reads a string of ASCII characters without escapes.
func (r *plain) key() (name []byte, ok bool) {
	if r.next() != '"' {
		return nil, false
	}
	from := r.at + 1
	for i := from; i < len(r.data); i++ {
		switch c := r.data[i]; {
		case c == '"':
			r.at = i + 1
			return r.data[from:i], true
		case c < ' ' || c == '\\' || c >= utf8.RuneSelf:
			return nil, false
		}
	}
	return nil, false
}

func (r *plain) lower(name []byte) []byte {
	r.text = r.text[:0]
	for _, c := range name {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		r.text = append(r.text, c)
	}
	return r.text
}

// str reads a string.
func (r *plain) str() (s string, ok bool) {
	if r.next() != '"' {
		return "", false
	}
	from := r.at + 1
	ascii := true
	for i := from; i < len(r.data); i++ {
		switch c := r.data[i]; {
		case c == '"':
			r.at = i + 1
			return string(r.data[from:i]), ascii || utf8.Valid(r.data[from:i])
		case c == '\\':
			return r.escaped(from, i)
		case c < ' ':
			return "", false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return "", false
}

// escapes maps the character after a backslash to the character that the escape represents.
var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escaped reads a string that has its first escape at i.
func (r *plain) escaped(from, i int) (s string, ok bool) {
	if r.text == nil {
		r.text = make([]byte, 0, len(r.data)-from) // enough for any string in the rest of the message
	}
	r.text = append(r.text[:0], r.data[from:i]...)
	for i < len(r.data) {
		switch c := r.data[i]; {
		case c == '"':
			r.at = i + 1
			return string(r.text), utf8.Valid(r.text)
		case c < ' ':
			return "", false
		case c != '\\':
			r.text = append(r.text, c)
			i++
		case i+1 == len(r.data):
			return "", false
		case r.data[i+1] == 'u':
			c, n := escapedRune(r.data[i:])
			if n == 0 {
				return "", false
			}
			r.text = utf8.AppendRune(r.text, c)
			i += n
		default:
			e := escapes[r.data[i+1]]
			if e == 0 {
				return "", false
			}
			r.text = append(r.text, e)
			i += 2
		}
	}
	return "", false
}

// escapedRune reads \u1234, or a surrogate pair of two such escapes. n is the length of the escapes, or 0 if they do
// not encode a character.
func escapedRune(data []byte) (c rune, n int) {
	c, ok := hex4(data)
	if !ok {
		return 0, 0
	}
	if !utf16.IsSurrogate(c) {
		return c, 6
	}
	low, ok := hex4(data[6:])
	if c = utf16.DecodeRune(c, low); !ok || c == utf8.RuneError {
		return 0, 0
	}
	return c, 12
}

// hex4 reads \u1234.
func hex4(data []byte) (c rune, ok bool) {
	if len(data) < 6 || data[0] != '\\' || data[1] != 'u' {
		return 0, false
	}
	for _, d := range data[2:6] {
		switch {
		case '0' <= d && d <= '9':
			d -= '0'
		case 'a' <= d && d <= 'f':
			d -= 'a' - 10
		case 'A' <= d && d <= 'F':
			d -= 'A' - 10
		default:
			return 0, false
		}
		c = c<<4 | rune(d)
	}
	return c, true
}

func (r *plain) skipText() bool {
	if r.next() != '"' {
		return false
	}
	for i := r.at + 1; i < len(r.data); i++ {
		switch c := r.data[i]; {
		case c == '"':
			r.at = i + 1
			return true
		case c < ' ':
			return false
		case c != '\\':
		case i+1 == len(r.data):
			return false
		case r.data[i+1] == 'u':
			if _, ok := hex4(r.data[i:]); !ok {
				return false
			}
			i += 5
		case escapes[r.data[i+1]] == 0:
			return false
		default:
			i++
		}
	}
	return false
}
