package leak

import (
	"math/bits"
	"slices"
	"strings"

	"retake/internal/secrets/redact"
)

// Redactor returns a redactor for these values in every encoding. Each line of a multi-line value counts as a value.
func Redactor(texts ...string) *redact.Redactor {
	return redact.New(texts...).With(Of(texts...))
}

// Of returns a Finder for unnamed values and for each line of multi-line values.
func Of(texts ...string) *Finder {
	var values []Value
	for _, t := range texts {
		for _, part := range append(strings.FieldsFunc(t, func(c rune) bool { return c == '\n' || c == '\r' }), t) {
			if part = strings.TrimSpace(part); len(part) >= shortest {
				values = append(values, Value{Text: part})
			}
		}
	}
	return New(values...)
}

const (
	// heldMost is the maximum number of bytes that a Stream holds back, so a Stream cannot hide a value spread over
	// more bytes.
	heldMost = 64 << 10
	// contextMost is the number of bytes of passed input that a Stream keeps. A value may have started there, with too
	// few symbols to be recognized. The limit is large, because each symbol may be an escape on a separate line.
	contextMost = 512
)

// Stream masks a text that arrives in pieces, even if a value is spread over several pieces. It is not safe for
// concurrent use.
type Stream struct {
	f      *Finder
	passed string // tail of the input that Pass has already released
	held   string
}

// Stream returns a new Stream that masks the values.
func (f *Finder) Stream() redact.Stream { return &Stream{f: f} }

// Pass adds a piece of the text and returns the output that is safe to release. It holds back a line that may contain
// the start of a value.
func (s *Stream) Pass(text string) string {
	if s.f == nil || len(s.f.patterns) == 0 && len(s.f.spelled) == 0 {
		return text
	}
	all := s.passed + s.held + text
	hold := len(all)
	if from := s.f.begun(all); from < len(all) {
		hold = max(len(s.passed), strings.LastIndexByte(all[:from], '\n')+1)
	}
	if len(all)-hold > heldMost {
		hold = len(all)
	}
	return s.release(all, hold)
}

// Flush returns the output that was held back. Call it at the end of the text.
func (s *Stream) Flush() string {
	all := s.passed + s.held
	return s.release(all, len(all))
}

// release returns the masked text up to the position hold, and holds back the rest.
func (s *Stream) release(all string, hold int) string {
	out := ""
	if hold > len(s.passed) {
		out = s.f.maskBetween(all, len(s.passed), hold)
	}
	s.held = all[hold:]
	s.passed = all[:hold]
	s.passed = strings.Clone(s.passed[max(0, len(s.passed)-contextMost):])
	s.held = strings.Clone(s.held)
	return out
}

// maskBetween masks values in part of the text, even values that extend beyond the part.
func (f *Finder) maskBetween(text string, from, to int) string {
	var gaps []Match
	f.all(text, func(m Match) {
		if m.At, m.End = max(m.At, from), min(m.End, to); m.At < m.End {
			gaps = append(gaps, m)
		}
	})
	return cover(text[:to], from, gaps)
}

// cover returns the text after the position done, with redact.Marker in place of each gap.
func cover(text string, done int, gaps []Match) string {
	if len(gaps) == 0 {
		return text[done:]
	}
	slices.SortFunc(gaps, func(a, b Match) int { return a.At - b.At })
	var out strings.Builder
	end := -1
	for _, g := range gaps {
		if g.At >= done {
			if g.At > end { // adjacent values share a gap
				out.WriteString(text[done:g.At] + redact.Marker)
			}
		}
		done = max(done, g.End)
		end = done
	}
	return out.String() + text[done:]
}

// begun returns the position of the first value that is cut off by the end of the text. It considers all encodings. If
// no value is cut off, it returns len(text).
func (f *Finder) begun(text string) int {
	at := len(text)
	if f.longest == 0 {
		return at
	}
	for how := asItStands; how <= resolvedAgain; how++ {
		if how == asItStands || how == resolved && strings.ContainsAny(text, `\%&`) || how == resolvedAgain &&
			strings.Contains(text, "%25") {
			at = min(at, f.begunIn(f.lastSymbols(text, how), len(text)))
		}
	}
	return at
}

// lastSymbols returns the last symbols of a text, as many as an incomplete value can have.
func (f *Finder) lastSymbols(text string, how reading) stream {
	from, n := len(text), 0
	most := f.longest - 1
	if how != asItStands {
		most *= 10 // the longest escape sequence for a character
	}
	for from > 0 && n < most {
		from--
		if symbols[text[from]] != 0 {
			n++
		}
	}
	s := stream{}
	for i := from; i < len(text); {
		b, length := text[i], 1
		if how != asItStands && (b == '\\' || b == '%' || b == '&') {
			b, length = unescape(text[i:], how == resolvedAgain)
		}
		if symbols[b] != 0 {
			s.symbols, s.at = append(s.symbols, symbols[b]), append(s.at, i)
		}
		i += length
	}
	if len(s.symbols) >= f.longest {
		cut := len(s.symbols) - f.longest + 1
		s.symbols, s.at = s.symbols[cut:], s.at[cut:]
	}
	return s
}

// begunIn returns the position in the text of the first value that is cut off by the end of the text. If no value is
// cut off, it returns the argument none.
func (f *Finder) begunIn(s stream, none int) int {
	var h uint64
	for i := range s.symbols {
		h = bits.RotateLeft64(h, 1) ^ entering[s.symbols[i]]
		if i >= window {
			h ^= leaving[s.symbols[i-window]]
		}
		if i < window-1 {
			continue
		}
		rest := s.symbols[i+1-window:]
		for _, p := range f.heads[h] {
			if len(rest) < len(p.symbols) && string(rest) == p.symbols[:len(rest)] {
				return s.at[i+1-window]
			}
		}
	}
	return none
}

// Edges returns the number of bytes at the front of the text that may be the tail of a truncated value, and the
// position near the end where a truncated value may start.
func (f *Finder) Edges(text string) (front, end int) {
	if f == nil {
		return 0, len(text)
	}
	end = f.begun(text)
	var s stream
	for i := 0; i < len(text) && len(s.symbols) < f.longest; i++ {
		if c := symbols[text[i]]; c != 0 {
			s.symbols, s.at = append(s.symbols, c), append(s.at, i)
		}
	}
	if len(s.symbols) < window {
		return 0, end
	}
	first := string(s.symbols[:window])
	for _, p := range f.list {
		if !strings.Contains(p.symbols, first) {
			continue
		}
		for n := min(len(p.symbols)-1, len(s.symbols)); n >= window && s.at[n-1] >= front; n-- {
			if string(s.symbols[:n]) == p.symbols[len(p.symbols)-n:] {
				front = s.at[n-1] + 1
				break
			}
		}
	}
	return min(front, end), end
}
