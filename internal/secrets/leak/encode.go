package leak

import (
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

const (
	// window is the number of symbols in one hash, and the minimum length of a pattern.
	window = 8
	// surely is the minimum number of symbols in a pattern, because shorter patterns can occur in ordinary text by
	// chance. For a random value, window symbols are enough unless the pattern is encoded.
	surely = 12
)

// pattern is one encoding of one value, reduced to symbols.
type pattern struct {
	symbols string
	name    string // name of the value
	as      string // encoding; empty for the plain value
}

// symbols maps a byte to its symbol, or 0 for bytes to skip. The symbol of a letter is the lower-case letter.
var symbols = func() (table [256]byte) {
	for c := range table {
		switch b := byte(c); {
		case 'a' <= b && b <= 'z', '0' <= b && b <= '9':
			table[c] = b
		case 'A' <= b && b <= 'Z':
			table[c] = b + 'a' - 'A'
		}
	}
	return table
}()

func reduce(text string) string {
	var out strings.Builder
	for i := range len(text) {
		if c := symbols[text[i]]; c != 0 {
			out.WriteByte(c)
		}
	}
	return out.String()
}

const (
	base64Digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/" // search skips - and _
	base32Digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
)

// patterns returns the encodings of a value that are long enough to differ from ordinary text.
func patterns(v Value) (out []pattern) {
	add := func(as, text string, least int) {
		if s := reduce(text); len(s) >= least {
			out = append(out, pattern{s, v.Name, as})
		}
	}
	least := surely
	if random(v.Text) {
		least = window
	}
	add("", v.Text, least)
	if r := resolve(v.Text); r != v.Text { // also find the value with its apparent escapes resolved
		add("", r, least)
	}
	backwards := []byte(v.Text)
	slices.Reverse(backwards)
	add("backwards", string(backwards), least)
	wide := utf16Of(v.Text)
	for _, bytes := range []string{v.Text, wide} {
		for before := range 3 {
			add("base64", within(bytes, base64Digits, 6, before), surely)
		}
	}
	for before := range 5 {
		add("base32", within(v.Text, base32Digits, 5, before), surely)
	}
	var pairs, numbers []string
	for i := range len(v.Text) {
		pairs = append(pairs, hex.EncodeToString([]byte{v.Text[i]}))
		numbers = append(numbers, strconv.Itoa(int(v.Text[i])))
	}
	for _, between := range []string{"", "x", "0x", "00"} { // 7a6b, \x7a\x6b, 0x7a, 0x6b, and UTF-16
		add("hexadecimal", strings.Join(pairs, between), surely)
	}
	add("bytes", strings.Join(numbers, ","), surely)
	return out
}

// within encodes bytes that are part of a longer input. before is the number of preceding bytes. within omits the
// digits that also depend on adjacent bytes.
func within(bytes, digits string, bits, before int) string {
	var out strings.Builder
	first, end := 8*before, 8*(before+len(bytes))
	for at := (first + bits - 1) / bits * bits; at+bits <= end; at += bits {
		digit := 0
		for bit := at - first; bit < at-first+bits; bit++ {
			digit = digit<<1 | int(bytes[bit/8]>>(7-bit%8))&1
		}
		out.WriteByte(digits[digit])
	}
	return out.String()
}

// utf16Of returns the text in little-endian UTF-16 without the final zero byte, because that form also occurs in
// big-endian UTF-16.
func utf16Of(text string) string {
	var out strings.Builder
	for _, u := range utf16.Encode([]rune(text)) {
		out.WriteByte(byte(u))
		out.WriteByte(byte(u >> 8))
	}
	return strings.TrimSuffix(out.String(), "\x00")
}

// resolve replaces escapes with the characters that they represent.
func resolve(text string) string {
	var out strings.Builder
	for len(text) > 0 {
		c, n := unescape(text, false)
		out.WriteByte(c)
		text = text[n:]
	}
	return out.String()
}

// unescape reads one byte or one escape at the start of a text, and returns its value and length. The value is 0 for a
// named escape, and for a character that is not ASCII. If again is set, the percent sign of an escape may itself be
// percent-encoded.
func unescape(s string, again bool) (c byte, length int) {
	switch {
	case s[0] == '%':
		at := 1
		for again && len(s) >= at+4 && s[at:at+2] == "25" && isHex(s[at+2:at+4]) {
			at += 2
		}
		if len(s) >= at+2 && isHex(s[at:at+2]) {
			return ascii(s[at:at+2], 16), at + 2
		}
	case s[0] == '&':
		end := strings.IndexByte(s[:min(len(s), 12)], ';')
		switch {
		case end > 3 && s[1] == '#' && s[2]|0x20 == 'x':
			return ascii(s[3:end], 16), end + 1
		case end > 2 && s[1] == '#':
			return ascii(s[2:end], 10), end + 1
		case end > 2 && strings.Trim(s[1:end], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == "":
			return 0, end + 1 // named escapes are never letters or digits
		}
	case s[0] == '\\' && len(s) > 1:
		return unescapeBackslash(s)
	}
	return s[0], 1
}

// hexEscapes maps the letter in an escape such as \x to the number of digits that follow.
var hexEscapes = map[byte]int{'x': 2, 'u': 4, 'U': 8}

func unescapeBackslash(s string) (c byte, length int) {
	if digits := hexEscapes[s[1]]; digits > 0 && len(s) >= 2+digits && isHex(s[2:2+digits]) {
		return ascii(s[2:2+digits], 16), 2 + digits
	}
	switch {
	case strings.IndexByte("abefnrtv", s[1]) >= 0:
		return 0, 2
	case s[1] == 'u' && len(s) > 2 && s[2] == '{':
		if end := strings.IndexByte(s[:min(len(s), 12)], '}'); end > 3 && isHex(s[3:end]) {
			return ascii(s[3:end], 16), end + 1
		}
	case '0' <= s[1] && s[1] <= '7':
		end := 2
		for end < min(len(s), 4) && '0' <= s[end] && s[end] <= '7' {
			end++
		}
		return ascii(s[1:end], 8), end
	}
	return s[0], 1
}

func isHex(s string) bool {
	for i := range len(s) {
		if c := symbols[s[i]]; c == 0 || c > 'f' {
			return false
		}
	}
	return true
}

// ascii parses a character code, and returns 0 if it is not valid ASCII.
func ascii(digits string, base int) byte {
	n, err := strconv.ParseUint(digits, base, 32)
	if err != nil || n > 0x7f {
		return 0
	}
	return byte(n)
}
