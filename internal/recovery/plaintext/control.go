package plaintext

import "strings"

// WithoutControl returns valid UTF-8 text as a terminal would display it. It drops text overwritten after a carriage
// return or erased by backspaces, and replaces a cursor movement with a blank or a line feed. It removes control
// characters and control sequences (CSI, OSC, DCS and others, introduced by ESC or C1, complete or truncated). It does
// not change text without control characters.
func WithoutControl(s string) string {
	first := cleanUpTo(s)
	if first == len(s) {
		return s
	}
	p := page{out: make([]byte, first, len(s))}
	copy(p.out, s)
	p.row = strings.LastIndexByte(s[:first], '\n') + 1
	for i := first; i < len(s); {
		switch c := s[i]; {
		case !suspect[c]:
			p.put(c)
			i++
		case c == 0x1b:
			i += p.escape(s[i:])
		case c == 0xc2 && i+1 < len(s) && s[i+1] < 0xa0: // a C1 character replaces ESC and a letter
			i += p.sequence(s[i+1]-0x40, s[i+2:]) + 2
		default:
			p.control(c)
			i++
		}
	}
	return string(p.out)
}

// cleanUpTo returns the offset of the first suspect byte. It tests eight bytes at a time.
func cleanUpTo(s string) (n int) {
	for ; len(s)-n >= 8; n += 8 {
		x := eight(s[n:])
		if belowBlank(x)|holds(x, 0x7f)|holds(x, 0xc2) == 0 {
			continue
		}
		for k := range 8 {
			if suspect[s[n+k]] {
				return n + k
			}
		}
	}
	for n < len(s) && !suspect[s[n]] {
		n++
	}
	return n
}

// HasControl reports whether a text contains an ASCII control character, such as a tab or a line feed.
func HasControl(s string) bool {
	for ; len(s) >= 8; s = s[8:] {
		if belowBlank(eight(s)) != 0 {
			return true
		}
	}
	for _, c := range []byte(s) {
		if c < ' ' {
			return true
		}
	}
	return false
}

// eight returns the first eight bytes of s as a little-endian number.
func eight(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 | uint64(s[4])<<32 | uint64(
		s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

const (
	ones = 0x0101010101010101
	tops = 0x8080808080808080
)

// belowBlank returns 0 if and only if none of the eight bytes is less than a blank. The subtraction sets the top bit of
// a smaller byte.
func belowBlank(x uint64) uint64 { return (x - ones*' ') &^ x & tops }

// holds returns 0 if and only if c is not one of the eight bytes.
func holds(x, c uint64) uint64 {
	x ^= ones * c
	return (x - ones) &^ x & tops
}

// suspect marks the bytes that can begin a forbidden character. 0xc2 begins the C1 control characters, but also some
// permitted characters.
var suspect = func() (is [256]bool) {
	for c := range byte(' ') {
		is[c] = c != '\n' && c != '\t'
	}
	is[0x7f], is[0xc2] = true, true
	return is
}()

// page holds the text so far, and the start of the cursor's row.
type page struct {
	out      []byte
	row      int
	returned bool // the cursor is at the start of the row, so the next text overwrites the row
}

func (p *page) put(c byte) {
	if c == '\n' {
		p.newline()
		return
	}
	if p.returned {
		p.out, p.returned = p.out[:p.row], false
	}
	p.out = append(p.out, c)
}

func (p *page) newline() {
	p.out = append(p.out, '\n')
	p.row, p.returned = len(p.out), false
}

// control applies a single control character.
func (p *page) control(c byte) {
	switch {
	case c == '\r':
		p.returned = true
	case c == '\b':
		n := len(p.out)
		for n > p.row && p.out[n-1]&0xc0 == 0x80 { // the character's continuation bytes
			n--
		}
		p.out = p.out[:max(p.row, n-1)]
	case c >= 0xa0:
		p.put(c)
	}
}

// escape applies the sequence at the start of s, which begins with ESC, and returns its length.
func (p *page) escape(s string) int {
	n := 1
	for n < len(s) && s[n] >= ' ' && s[n] < '0' { // ESC ( B
		n++
	}
	switch {
	case n == len(s) || s[n] < '0' || s[n] > '~':
		return n
	case n > 1:
		return n + 1
	}
	return p.sequence(s[1], s[2:]) + 2
}

// sequence applies the control sequence that starts with ESC and kind and continues in s. It returns the number of
// bytes consumed from s.
func (p *page) sequence(kind byte, s string) int {
	switch kind {
	case '[':
		return p.csi(s)
	case ']', 'P', 'X', '^', '_':
		return stringLen(s)
	case 'E', 'M': // next row, row above
		p.jump()
	}
	return 0
}

// csi applies a CSI sequence with its parameters and final byte in s, and returns its length in s.
func (p *page) csi(s string) int {
	n := 0
	for n < len(s) && s[n] >= ' ' && s[n] < '@' {
		n++
	}
	if n == len(s) || s[n] > '~' || s[n] < ' ' { // cut off
		return n
	}
	switch s[n] {
	case 'C': // to the right
		p.put(' ')
	case 'A', 'B', 'E', 'F', 'H', 'f', 'd': // to another row
		p.jump()
	case 'G':
		p.returned = true
	}
	return n + 1
}

// jump starts a new row, unless the current one is empty.
func (p *page) jump() {
	if len(p.out) > p.row {
		p.newline()
	}
}

// stringLen returns the length of the content of OSC, DCS, SOS, PM and APC, including the terminating BEL or ST. An
// unterminated string ends with its line.
func stringLen(s string) int {
	for i := range len(s) {
		switch {
		case s[i] == '\a':
			return i + 1
		case s[i] == 0x1b && i+1 < len(s) && s[i+1] == '\\', s[i] == 0xc2 && i+1 < len(s) && s[i+1] == 0x9c:
			return i + 2
		case s[i] == '\n', s[i] == 0x1b:
			return i
		}
	}
	return len(s)
}
