package plainjson

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strconv"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// Limits on a Reader.
const (
	maxDepth  = 64   // depth of nested values; encoding/json allows more
	maxDigits = 18   // digits of an integer, so that it fits into 64 bits
	wordBytes = 64   // length of a cached string in bytes
	words     = 1024 // number of cached strings; a power of two
)

// Reader reads texts one after another. It is not safe for concurrent use. Its methods return false if the text does
// not have the expected form; the position is then undefined until Reset.
type Reader struct {
	data []byte
	at   int

	words    [words]string // cached strings, by hash
	time     time.Time     // the value that Time returned last
	timeText []byte        // the text of that time
	unquoted []byte        // buffer for a string with escapes
}

// Reset begins a new text.
func (r *Reader) Reset(text []byte) { r.data, r.at = text, 0 }

// End reports whether the whole text was read.
func (r *Reader) End() bool { return r.at == len(r.data) }

// Literal reads s if it comes next.
func (r *Reader) Literal(s string) bool {
	end := r.at + len(s)
	if end > len(r.data) || string(r.data[r.at:end]) != s {
		return false
	}
	r.at = end
	return true
}

// is reads the byte c if it comes next.
func (r *Reader) is(c byte) bool {
	if r.at == len(r.data) || r.data[r.at] != c {
		return false
	}
	r.at++
	return true
}

// peek returns the next byte, or 0 at the end.
func (r *Reader) peek() byte {
	if r.at == len(r.data) {
		return 0
	}
	return r.data[r.at]
}

// Text reads a string. The result is valid until the next read.
func (r *Reader) Text() ([]byte, bool) {
	if !r.is('"') {
		return nil, false
	}
	begin := r.at
	for {
		r.at = plainTo(r.data, r.at)
		switch c := r.peek(); {
		case c == '"':
			r.at++
			return r.data[begin : r.at-1], true
		case c >= utf8.RuneSelf:
			if !r.foreign() {
				return nil, false
			}
		case c == '\\':
			return r.unquote(begin)
		default: // a control character, or the end of the text
			return nil, false
		}
	}
}

// foreign reads non-ASCII characters.
func (r *Reader) foreign() bool {
	for r.peek() >= utf8.RuneSelf {
		c, n := utf8.DecodeRune(r.data[r.at:])
		if c == utf8.RuneError && n <= 1 {
			return false
		}
		r.at += n
	}
	return true
}

// unquote reads the rest of a string, from its first escape on.
func (r *Reader) unquote(begin int) ([]byte, bool) {
	r.unquoted = append(r.unquoted[:0], r.data[begin:r.at]...)
	for {
		begin = r.at
		r.at = plainTo(r.data, r.at)
		r.unquoted = append(r.unquoted, r.data[begin:r.at]...)
		switch c := r.peek(); {
		case c == '"':
			r.at++
			return r.unquoted, true
		case c >= utf8.RuneSelf:
			begin = r.at
			if !r.foreign() {
				return nil, false
			}
			r.unquoted = append(r.unquoted, r.data[begin:r.at]...)
		case c == '\\':
			if !r.escape() {
				return nil, false
			}
		default:
			return nil, false
		}
	}
}

// escaped maps the second character of a short escape to the character that it stands for.
var escaped = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

func (r *Reader) escape() bool {
	if r.at+2 > len(r.data) {
		return false
	}
	if c := escaped[r.data[r.at+1]]; c != 0 {
		r.at += 2
		r.unquoted = append(r.unquoted, c)
		return true
	}
	c, ok := r.unicode()
	if ok && utf16.IsSurrogate(c) {
		var second rune
		if second, ok = r.unicode(); ok {
			c = utf16.DecodeRune(c, second)
			ok = c != utf8.RuneError // encoding/json handles unpaired surrogates
		}
	}
	r.unquoted = utf8.AppendRune(r.unquoted, c)
	return ok
}

// unicode reads \uXXXX.
func (r *Reader) unicode() (c rune, ok bool) {
	if r.at+6 > len(r.data) || r.data[r.at] != '\\' || r.data[r.at+1] != 'u' {
		return 0, false
	}
	for _, d := range r.data[r.at+2 : r.at+6] {
		switch {
		case d >= '0' && d <= '9':
			d -= '0'
		case d >= 'a' && d <= 'f':
			d -= 'a' - 10
		case d >= 'A' && d <= 'F':
			d -= 'A' - 10
		default:
			return 0, false
		}
		c = c<<4 | rune(d)
	}
	r.at += 6
	return c, true
}

// Masks for testing eight bytes at a time. In the result, the high bit of a byte marks a control character, a quotation
// mark, a backslash or a non-ASCII byte.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// plainTo returns the index of the first quotation mark, escape or byte that is not printable ASCII, or the length of
// the data.
func plainTo(data []byte, at int) int {
	for ; at+8 <= len(data); at += 8 {
		b := binary.LittleEndian.Uint64(data[at:])
		quote, slash := b^(ones*'"'), b^(ones*'\\')
		// the lowest mark is exact; marks above it may be false
		if stops := (b | (b - ones*' ') | (quote - ones) | (slash - ones)) & highs; stops != 0 {
			return at + bits.TrailingZeros64(stops)/8
		}
	}
	for at < len(data) && plain[data[at]] {
		at++
	}
	return at
}

// plain marks the bytes that a string can contain unescaped.
var plain = func() (is [256]bool) {
	for c := byte(' '); c < utf8.RuneSelf; c++ {
		is[c] = c != '"' && c != '\\'
	}
	return is
}()

// String reads a string.
func (r *Reader) String() (string, bool) {
	text, ok := r.Text()
	if !ok {
		return "", false
	}
	return r.word(text), true
}

// word returns text as a string, reusing a cached string if the text is short.
func (r *Reader) word(text []byte) string {
	n := len(text)
	if n > wordBytes {
		return string(text)
	}
	var hash uint64
	if n >= 8 {
		hash = binary.LittleEndian.Uint64(text) ^ binary.LittleEndian.Uint64(text[n-8:])*0x9e3779b97f4a7c15
	} else {
		for _, c := range text {
			hash = hash<<8 | uint64(c)
		}
	}
	hash = (hash ^ uint64(n)) * 0xff51afd7ed558ccd //nolint:gosec // it is at most 64
	known := &r.words[hash>>(64-10)]
	if *known != string(text) {
		*known = string(text)
	}
	return *known
}

// Time reads a time in the JSON format of time.Time.
func (r *Reader) Time() (time.Time, bool) {
	begin := r.at
	if _, ok := r.Text(); !ok {
		return time.Time{}, false
	}
	text := r.data[begin:r.at]
	if bytes.Equal(text, r.timeText) {
		return r.time, true
	}
	var t time.Time
	if t.UnmarshalJSON(text) != nil {
		return time.Time{}, false
	}
	r.time, r.timeText = t, append(r.timeText[:0], text...)
	return t, true
}

// integer reads an integer of at most maxDigits digits.
func (r *Reader) integer() (int64, bool) {
	minus := r.is('-')
	begin := r.at
	var n int64
	for c := r.peek(); c >= '0' && c <= '9'; c = r.peek() {
		n = n*10 + int64(c-'0')
		r.at++
	}
	digits := r.at - begin
	if digits == 0 || digits > maxDigits || digits > 1 && r.data[begin] == '0' {
		return 0, false
	}
	switch r.peek() {
	case '.', 'e', 'E':
		return 0, false
	}
	if minus {
		n = -n
	}
	return n, true
}

// float reads a number.
func (r *Reader) float(bits int) (float64, bool) {
	begin := r.at
	if !r.number() {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(r.data[begin:r.at]), bits)
	return f, err == nil
}

// number skips a number.
func (r *Reader) number() bool {
	r.is('-')
	if !r.is('0') && !r.digits() {
		return false
	}
	if r.is('.') && !r.digits() {
		return false
	}
	if r.is('e') || r.is('E') {
		if !r.is('+') {
			r.is('-')
		}
		return r.digits()
	}
	return true
}

// digits skips one or more digits.
func (r *Reader) digits() bool {
	begin := r.at
	for c := r.peek(); c >= '0' && c <= '9'; c = r.peek() {
		r.at++
	}
	return r.at > begin
}

// Raw reads a value of any kind, and returns its text.
func (r *Reader) Raw() ([]byte, bool) {
	begin := r.at
	if !r.skip(0) {
		return nil, false
	}
	return r.data[begin:r.at:r.at], true
}

// skip skips a value.
func (r *Reader) skip(depth int) bool {
	if depth == maxDepth {
		return false
	}
	switch r.peek() {
	case '"':
		_, ok := r.Text()
		return ok
	case '{':
		r.at++
		return r.is('}') || r.skipList(depth, '}')
	case '[':
		r.at++
		return r.is(']') || r.skipList(depth, ']')
	case 't':
		return r.Literal("true")
	case 'f':
		return r.Literal("false")
	case 'n':
		return r.Literal("null")
	default:
		return r.number()
	}
}

// skipList skips array elements, or the keys and values of an object, up to end.
func (r *Reader) skipList(depth int, end byte) bool {
	for {
		if end == '}' {
			if _, ok := r.Text(); !ok || !r.is(':') {
				return false
			}
		}
		if !r.skip(depth + 1) {
			return false
		}
		if !r.is(',') {
			return r.is(end)
		}
	}
}
