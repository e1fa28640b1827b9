package classify

import (
	"slices"
	"strconv"
	"strings"

	"retake/internal/recovery"
	"retake/internal/recovery/plaintext"
)

// sight is the line that rules are asked about, and what is known of it. What several rules ask is worked out once.
type sight struct {
	c        *Classifier
	line     string
	lower    string
	ascii    []byte   // with small letters of ASCII
	held     []uint64 // a bit for each word of the vocabulary that it holds
	lowered  bool
	searched bool
	odd      bool
}

// see turns to a line.
func (s *sight) see(line string) {
	if line == s.line {
		return
	}
	s.line, s.lowered, s.searched = line, false, false
}

// search finds the words of the vocabulary.
func (s *sight) search() {
	if s.searched {
		return
	}
	if s.held == nil {
		s.held = make([]uint64, (len(s.c.words.words)+63)/64)
	}
	clear(s.held)
	if s.searched, s.odd = true, odd(s.line); s.odd {
		return
	}
	s.ascii = s.ascii[:0]
	for i := 0; i < len(s.line); i++ {
		b := s.line[i]
		if 'A' <= b && b <= 'Z' {
			b |= 0x20
		}
		s.ascii = append(s.ascii, b)
	}
	s.c.words.find(s.ascii, s.held)
}

// holdsAny reports whether the line holds one of some words.
func (s *sight) holdsAny(ids []uint16) bool {
	for _, id := range ids {
		if s.held[id/64]>>(id%64)&1 != 0 {
			return true
		}
	}
	return false
}

func (s *sight) holdsOfEach(lists [][]uint16) bool {
	for _, ids := range lists {
		if !s.holdsAny(ids) {
			return false
		}
	}
	return true
}

// holds reports whether a pattern matches the line.
func (s *sight) holds(p *pattern) bool {
	s.search()
	if s.odd {
		return p.whole.MatchString(s.line)
	}
	if s.holdsAny(p.words) {
		return true
	}
	for i := range p.ways {
		if w := &p.ways[i]; s.holdsOfEach(w.need) && w.re.MatchString(s.line) {
			return true
		}
	}
	return false
}

// matches reports whether r knows the line, and what it means.
func (s *sight) matches(r *rule) (recovery.Reason, bool) {
	if len(r.Unless) > 0 {
		if !s.lowered {
			s.lower, s.lowered = strings.ToLower(s.line), true
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

// status reads the HTTP status that a line states.
func (s *sight) status(p *pattern) (recovery.Reason, bool) {
	if !threeDigits(s.line) { // the expressions are long
		return "", false
	}
	m := p.whole.FindStringSubmatch(s.line)
	if m == nil {
		return "", false
	}
	code, _ := strconv.Atoi(m[1])
	row, ok := s.c.kindOf(code)
	return row.Reason, ok
}

// threeDigits reports whether three digits stand side by side.
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
