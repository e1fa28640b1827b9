package classify

import (
	_ "embed"
	"slices"
	"strings"
	"sync"
)

//go:embed translated.tsv
var embeddedTranslations string

// translations replaces phrases in other languages with the English phrases that the rules use. It finds a phrase by
// its first six bytes, because an automaton for all phrases would need 30 MB.
type translations struct {
	begins  map[uint64][]translation // by first six bytes, longest first
	buckets [1 << 10]uint64          // one bit for each hash of a key in begins
}

type translation struct{ said, english string }

// keyLength is the length of a key in bytes.
const keyLength = 6

// translate is the built-in table.
var translate = sync.OnceValue(func() *translations { return newTranslations(embeddedTranslations) })

// newTranslations reads rows that contain an English phrase and its translations, separated by tabs. Rows that start
// with # are comments.
func newTranslations(table string) *translations {
	t := &translations{begins: map[uint64][]translation{}}
	for row := range strings.Lines(table) {
		english, said, _ := strings.Cut(strings.TrimSuffix(row, "\n"), "\t")
		if strings.HasPrefix(row, "#") {
			continue
		}
		for _, s := range strings.Split(said, "\t") {
			if len(s) < keyLength {
				continue
			}
			key := uint64(0)
			for i := range keyLength {
				key = key<<8 | uint64(folded[s[i]])
			}
			t.begins[key] = append(t.begins[key], translation{s, english})
			slices.SortStableFunc(t.begins[key], func(a, b translation) int { return len(b.said) - len(a.said) })
			t.buckets[bucket(key)/64] |= 1 << (bucket(key) % 64)
		}
	}
	return t
}

// bucket returns a number below 1<<16.
func bucket(key uint64) uint64 { return key * 0x9e3779b97f4a7c15 >> 48 }

// folded maps bytes to lower case. It folds ASCII only.
var folded = func() (to [256]byte) {
	for i := range to {
		to[i] = byte(i)
	}
	for c := 'A'; c <= 'Z'; c++ {
		to[c] = byte(c) | 0x20
	}
	return to
}()

// english returns the text with all known phrases translated to English. Its cost is linear in the length of the text.
func (t *translations) english(text string) string {
	var out strings.Builder
	done, key := 0, uint64(0)
	for i := 0; i < len(text); i++ {
		key = (key<<8 | uint64(folded[text[i]])) & (1<<(8*keyLength) - 1)
		if h := bucket(key); t.buckets[h/64]>>(h%64)&1 == 0 {
			continue
		}
		at := i - keyLength + 1
		if at < done {
			continue
		}
		for _, tr := range t.begins[key] {
			if len(text)-at >= len(tr.said) && equalFold(text[at:at+len(tr.said)], tr.said) {
				out.WriteString(text[done:at])
				out.WriteString(tr.english)
				done = at + len(tr.said)
				break
			}
		}
	}
	if done == 0 {
		return text
	}
	out.WriteString(text[done:])
	return out.String()
}

// equalFold compares a text with a lower-case text, ignoring ASCII case.
func equalFold(text, lower string) bool {
	for i := range len(lower) {
		if folded[text[i]] != lower[i] {
			return false
		}
	}
	return true
}
