package plaintext

import (
	"strings"
	"unicode"
)

// Joiners, and the parts of a tag-based flag.
const (
	nonJoiner, joiner = '\u200c', '\u200d'
	blackFlag         = '\U0001F3F4'
	tagFirst, tagLast = '\U000E0020', '\U000E007F'
)

// regions lists the regions with tag-based flags.
var regions = []string{"gbeng", "gbsct", "gbwls"}

// blank lists letters and marks that are invisible.
var blank = map[rune]bool{
	'\u034f': true, '\u115f': true, '\u1160': true, '\u17b4': true, '\u17b5': true,
	'\u3164': true, '\uffa0': true, '\u2800': true, '\u2028': true, '\u2029': true,
}

// Shown returns untrusted text as one line without control or invisible characters. It does not limit the length.
func Shown(s string) string {
	s, _ = Seen(joined(WithoutControl(strings.ToValidUTF8(s, "?"))))
	return joined(s)
}

// joined returns a text as one line, with one blank between words.
func joined(s string) string { return strings.Join(strings.Fields(s), " ") }

// Seen removes invisible characters from a text, and counts the runs that it removed. It keeps characters that affect
// an adjacent character in normal writing: joiners between letters and between emoji, one variation selector, the tags
// of a flag, and direction marks next to right-to-left letters.
func Seen(words string) (seen string, hidden int) {
	if strings.IndexFunc(words, unseen) < 0 {
		return words, 0
	}
	in := []rune(words)
	var out strings.Builder
	last := false // the previous character was removed
	for i := 0; i < len(in); i++ {
		n := 1
		if unseen(in[i]) {
			n = belongs(in, i)
		}
		if n == 0 {
			if !last {
				hidden++
			}
			last = true
			continue
		}
		out.WriteString(string(in[i : i+n]))
		i += n - 1
		last = false
	}
	return out.String(), hidden
}

// unseen reports whether a character is invisible.
func unseen(r rune) bool {
	switch {
	case r == '\n' || r == '\t' || r == '\r':
		return false
	case r < 0x20 || r == 0x7f:
		return true
	case r < 0x80:
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Variation_Selector,
		unicode.Noncharacter_Code_Point) || blank[r] ||
		r >= 0xE0000 && r <= 0xE0FFF || r == '\ufff0' || r > '\ufff0' && r <= '\ufff8' || r == '\u2065'
}

// belongs returns the length of the run at i if it affects the characters next to it, or 0.
func belongs(in []rune, i int) int {
	r := in[i]
	before, after := rune(0), rune(0)
	if i > 0 {
		before = in[i-1]
	}
	if i+1 < len(in) {
		after = in[i+1]
	}
	keep := false
	switch {
	case r == joiner && (pictures(before) || isSelector(before)):
		keep = pictures(after)
	case r == joiner || r == nonJoiner:
		keep = joins(before) && (joins(after) || r == nonJoiner && !unseen(after) || after == 0 && r == joiner)
	case isSelector(r):
		keep = before != 0 && !unseen(before) && !unicode.IsSpace(before) && takesSelector(r, before)
	case unicode.Is(unicode.Variation_Selector, r): // of Mongolian
		keep = unicode.Is(unicode.Mongolian, before)
	case r >= tagFirst && r <= tagLast:
		return flagTags(in, i)
	case r == '\u200e' || r == '\u200f' || r == '\u061c':
		keep = rightToLeft(before) && !unseen(after) || rightToLeft(after) && !unseen(before)
	case unicode.Is(unicode.Prepended_Concatenation_Mark, r): // visible characters
		keep = true
	}
	if keep {
		return 1
	}
	return 0
}

func isSelector(r rune) bool { return r >= '\ufe00' && r <= '\ufe0f' || r >= 0xE0100 && r <= 0xE01EF }

// takesSelector reports whether the variation selector r can change the preceding character. The two emoji selectors
// change symbols and digits. The other selectors change ideographs and mathematical signs.
func takesSelector(r, before rune) bool {
	switch {
	case r == '\ufe0e' || r == '\ufe0f':
		return pictures(before) || strings.ContainsRune("0123456789#*", before) || unicode.IsSymbol(before) ||
			unicode.In(before, unicode.Po, unicode.Pd, unicode.Lo)
	case r <= '\ufe02':
		return unicode.Is(unicode.Han, before) || unicode.IsSymbol(before)
	}
	return unicode.Is(unicode.Han, before)
}

// flagTags returns the number of tags from i that form the flag of a region.
func flagTags(in []rune, i int) int {
	if i == 0 || in[i-1] != blackFlag {
		return 0
	}
	var name strings.Builder
	for n, r := range in[i:] {
		if r == tagLast {
			for _, known := range regions {
				if name.String() == known {
					return n + 1
				}
			}
			return 0
		}
		if r < tagFirst || r > tagLast || n > 5 {
			return 0
		}
		name.WriteRune(r - 0xE0000)
	}
	return 0
}

// pictures reports whether a character is an emoji, a pictorial symbol or a skin tone.
func pictures(r rune) bool {
	return r >= 0x1F000 && r <= 0x1FAFF || r >= 0x2190 && r <= 0x2BFF || r == 0x00A9 || r == 0x00AE || r == 0x203C ||
		r == 0x2049 || r == 0x3030 || r == 0x303D
}

// joins reports whether a letter belongs to a script that uses joiners.
func joins(r rune) bool {
	return unicode.In(r, unicode.Arabic, unicode.Syriac, unicode.Nko, unicode.Mongolian, unicode.Devanagari,
		unicode.Bengali, unicode.Gurmukhi, unicode.Gujarati, unicode.Oriya,
		unicode.Tamil, unicode.Telugu, unicode.Kannada, unicode.Malayalam, unicode.Sinhala, unicode.Khmer,
		unicode.Myanmar, unicode.Tibetan)
}

func rightToLeft(r rune) bool {
	return unicode.In(r, unicode.Arabic, unicode.Hebrew, unicode.Syriac, unicode.Thaana, unicode.Nko)
}
