package leak

import (
	"math/bits"
	"slices"
	"strings"

	"retake/internal/secrets/redact"
)

// Match is an occurrence of a value.
type Match struct {
	Name string // name of the value
	// encoding: "base64", "base32", "hexadecimal", "bytes", "backwards"; empty for the plain value, even with escapes
	// or gaps
	As      string
	At, End int // byte offsets in the text
}

// Finder searches for values. A nil Finder has no values.
type Finder struct {
	list     []pattern
	patterns map[uint64][]pattern // by the hash of their last symbols
	heads    map[uint64][]pattern // by the hash of their first symbols
	filter   [filterBits / 64]uint64
	longest  int // number of symbols in the longest pattern
	spelled  []spelled
}

// filterBits is the size of the filter, which fits into the processor's fastest cache.
const filterBits = 1 << 15

// spelled is a value with too few symbols for a plain pattern. The Finder searches for its plain form with redact.
type spelled struct {
	name string
	by   *redact.Redactor
}

// New returns a Finder for these values and their secret parts (see parts).
func New(values ...Value) *Finder {
	f := &Finder{patterns: map[uint64][]pattern{}, heads: map[uint64][]pattern{}}
	seen := map[string]bool{}
	for _, v := range values {
		for _, text := range append([]string{v.Text}, parts(v.Text)...) {
			if !seen[text] {
				seen[text] = true
				f.add(Value{v.Name, text})
			}
		}
	}
	return f
}

func (f *Finder) add(v Value) {
	isPlain := false
	for _, p := range patterns(v) {
		f.list = append(f.list, p)
		first := hash(p.symbols[:window])
		f.heads[first] = append(f.heads[first], p)
		h := hash(p.symbols[len(p.symbols)-window:])
		f.patterns[h] = append(f.patterns[h], p)
		f.filter[h%filterBits/64] |= 1 << (h % 64)
		f.longest = max(f.longest, len(p.symbols))
		isPlain = isPlain || p.as == ""
	}
	if !isPlain {
		f.spelled = append(f.spelled, spelled{v.Name, redact.New(v.Text)})
	}
}

// hash returns the hash of one window of symbols.
func hash(symbols string) (h uint64) {
	for i := range len(symbols) {
		h = bits.RotateLeft64(h, 1) ^ entering[symbols[i]]
	}
	return h
}

// entering and leaving are the contributions of a symbol to the hash, when it enters and leaves the window.
var entering, leaving = func() (in, out [256]uint64) {
	state := uint64(1)
	for c := range in { // splitmix64
		state += 0x9e3779b97f4a7c15
		z := state
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		in[c] = z ^ z>>31
		out[c] = bits.RotateLeft64(in[c], window)
	}
	return in, out
}()

// Find returns the first occurrence of every value in each encoding, in text order.
func (f *Finder) Find(text string) (found []Match) {
	f.all(text, func(m Match) {
		i := slices.IndexFunc(found, func(o Match) bool { return o.Name == m.Name && o.As == m.As })
		switch {
		case i < 0:
			found = append(found, m)
		case m.At < found[i].At:
			found[i] = m
		}
	})
	slices.SortStableFunc(found, func(a, b Match) int { return a.At - b.At })
	return found
}

// Mask replaces values with redact.Marker.
func (f *Finder) Mask(text string) string {
	var gaps []Match
	f.all(text, func(m Match) { gaps = append(gaps, m) })
	return cover(text, 0, gaps)
}

// all calls found for every occurrence, in any order. It may report an occurrence twice.
func (f *Finder) all(text string, found func(Match)) {
	if f == nil {
		return
	}
	if len(f.patterns) > 0 {
		f.search(text, asItStands, found)
		if strings.ContainsAny(text, `\%&`) {
			f.search(text, resolved, found)
		}
		if strings.Contains(text, "%25") {
			f.search(text, resolvedAgain, found)
		}
	}
	for _, v := range f.spelled {
		for from := 0; ; {
			at, written := v.by.Find(text[from:])
			if at < 0 {
				break
			}
			found(Match{v.name, "", from + at, from + at + len(written)})
			from += at + len(written)
		}
	}
}

// stream is the most recently reduced part of a text.
type stream struct {
	symbols []byte
	at      []int // offset of each symbol in the text
}

// reading is a method of reducing text to symbols.
type reading int

const (
	asItStands    reading = iota
	resolved              // resolves escapes
	resolvedAgain         // resolves repeated percent-encoding
)

// pieceSymbols is the number of symbols in one step of a search.
const pieceSymbols = 16 << 10

// search reduces the text with one method, and calls found for each occurrence of a pattern.
func (f *Finder) search(text string, how reading, found func(Match)) {
	size := min(f.longest+pieceSymbols, len(text)+1)
	s := stream{make([]byte, size), make([]int, size)}
	n, searched := 0, 0
	for i := 0; i < len(text); {
		b, length := text[i], 1
		if how != asItStands && (b == '\\' || b == '%' || b == '&') {
			b, length = unescape(text[i:], how == resolvedAgain)
		}
		s.symbols[n], s.at[n] = symbols[b], i
		if s.symbols[n] != 0 {
			n++
		}
		i += length
		if n == size {
			f.searchPiece(text, s, searched, how, found)
			n = copy(s.symbols, s.symbols[size-f.longest:])
			copy(s.at, s.at[size-f.longest:])
			searched = n
		}
	}
	f.searchPiece(text, stream{s.symbols[:n], s.at[:n]}, searched, how, found)
}

// searchPiece finds the values that end after the symbols already searched.
func (f *Finder) searchPiece(text string, s stream, searched int, how reading, found func(Match)) {
	var h uint64
	first := max(0, searched-window+1)
	for i := first; i < len(s.symbols); i++ {
		h = bits.RotateLeft64(h, 1) ^ entering[s.symbols[i]]
		if i-first >= window {
			h ^= leaving[s.symbols[i-window]]
		}
		if f.filter[h%filterBits/64]&(1<<(h%64)) == 0 || i < max(searched, first+window-1) {
			continue
		}
		for _, p := range f.patterns[h] {
			from := i + 1 - len(p.symbols)
			if from < 0 || string(s.symbols[from:i+1]) != p.symbols {
				continue
			}
			end := s.at[i] + 1
			if how != asItStands {
				_, n := unescape(text[s.at[i]:], how == resolvedAgain)
				end = s.at[i] + n
			}
			found(Match{p.name, p.as, s.at[from], end})
		}
	}
}
