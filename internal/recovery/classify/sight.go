package classify

import (
	"slices"
	"strconv"
	"strings"

	"retake/internal/recovery"
	"retake/internal/recovery/plaintext"
)

// sight is a line under examination, or the relevant part of a long line. Shared results are computed once.
type sight struct {
	c     *Classifier
	line  string
	lower string   // "" until computed
	held  []uint64 // one bit for each vocabulary word in the line; nil before the search
	odd   bool     // the words cannot rule out a match
}

// search finds the vocabulary words in the line.
func (s *sight) search() {
	if s.held != nil {
		return
	}
	s.held = make([]uint64, (len(s.c.words.words)+63)/64)
	if s.odd = odd(s.line); s.odd {
		return
	}
	var short [256]byte
	small := append(append(short[:0], s.line...), make([]byte, padding)...)[:len(s.line)]
	for i, b := range small {
		if 'A' <= b && b <= 'Z' {
			small[i] = b | 0x20
		}
	}
	s.c.words.find(small, s.held)
}

// holdsAny reports whether the line contains one of the words with these ids.
func (s *sight) holdsAny(ids []uint16) bool {
	for _, id := range ids {
		if s.held[id/64]>>(id%64)&1 != 0 {
			return true
		}
	}
	return false
}

// meets reports whether the line satisfies the need.
func (s *sight) meets(n *need) bool {
	if len(n.words) > 0 && !s.holdsAny(n.words) {
		return false
	}
	for i := range n.all {
		if !s.meets(&n.all[i]) {
			return false
		}
	}
	for i := range n.any {
		if s.meets(&n.any[i]) {
			return true
		}
	}
	return len(n.any) == 0
}

// holds reports whether a pattern matches the line.
func (s *sight) holds(p *pattern) bool {
	s.search()
	if s.odd {
		return p.whole.compiled().MatchString(s.line)
	}
	if s.holdsAny(p.words) {
		return true
	}
	for i := range p.ways {
		if w := &p.ways[i]; s.meets(&w.need) && w.re.compiled().MatchString(s.line) {
			return true
		}
	}
	return false
}

// matches reports whether r matches the line, and returns the reason.
func (s *sight) matches(r *rule) (recovery.Reason, bool) {
	if len(r.Unless) > 0 {
		if s.lower == "" {
			s.lower = strings.ToLower(s.line)
		}
		if slices.ContainsFunc(r.Unless, func(u string) bool { return strings.Contains(s.lower, u) }) {
			return "", false
		}
	}
	switch {
	case r.pattern == nil:
		return r.Reason, true
	case r.Reason != "":
		return r.Reason, s.holds(r.pattern)
	}
	return s.status(r.pattern)
}

// status returns the reason for the HTTP status stated on the line.
func (s *sight) status(p *pattern) (recovery.Reason, bool) {
	if !threeDigits(s.line) {
		return "", false
	}
	s.search()
	ways := p.ways
	if s.odd {
		ways = []way{{re: p.whole}}
	}
	var first []int // offsets of the match and its group
	for i := range ways {
		w := &ways[i]
		if !s.odd && !s.meets(&w.need) {
			continue
		}
		if at := w.re.compiled().FindStringSubmatchIndex(s.line); at != nil && (first == nil || at[0] < first[0]) {
			first = at
		}
	}
	if first == nil {
		return "", false
	}
	code := 0
	if first[2] >= 0 {
		code, _ = strconv.Atoi(s.line[first[2]:first[3]])
	}
	row, ok := s.c.kindOf(code)
	return row.Reason, ok
}

// threeDigits reports whether the line contains three consecutive digits.
func threeDigits(line string) bool {
	run := 0
	for i := 0; i < len(line); i++ {
		if run++; !plaintext.IsDigit(line[i]) {
			run = 0
		}
		if run == 3 {
			return true
		}
	}
	return false
}
