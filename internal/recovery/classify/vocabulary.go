package classify

// vocabulary are the words, in lower case, that patterns look for in a line.
type vocabulary struct {
	words []string
	ids   map[string]uint16
	first [1 << hashBits]uint16 // hash of what a word begins with → the last such word and 1; 0: none does
	next  []link                // word → the one before it in that list
}

// link is what is looked at before a word is: most that begin alike are others.
type link struct {
	next   uint16 // and 1
	length uint8  // at most 255
	fourth byte   // of its bytes; of a shorter word nothing
}

const (
	shortestWord = 3 // bytes; what is shorter tells little
	hashBits     = 14
)

// idsOf returns the numbers of words, which it adds.
func (v *vocabulary) idsOf(words []string) []uint16 {
	ids := make([]uint16, 0, len(words))
	for _, w := range words {
		id, known := v.ids[w]
		if !known {
			id = uint16(len(v.words))
			at := &v.first[hash(w[0], w[1], w[2])]
			l := link{next: *at, length: uint8(min(len(w), 255))}
			if len(w) > 3 {
				l.fourth = w[3]
			}
			v.words, v.next = append(v.words, w), append(v.next, l)
			v.ids[w], *at = id, id+1
		}
		ids = append(ids, id)
	}
	return ids
}

func hash(a, b, c byte) uint32 {
	return (uint32(a) | uint32(b)<<8 | uint32(c)<<16) * 0x9e3779b1 >> (32 - hashBits)
}

// find sets the bits of the words that a line in lower case holds.
func (v *vocabulary) find(line []byte, held []uint64) {
	for i := 0; i+shortestWord <= len(line); i++ {
		n := v.first[hash(line[i], line[i+1], line[i+2])]
		if n == 0 {
			continue
		}
		rest := line[i:]
		for ; n != 0; n = v.next[n-1].next {
			l := &v.next[n-1]
			if int(l.length) > len(rest) || l.length > 3 && l.fourth != rest[3] {
				continue
			}
			if w := v.words[n-1]; len(w) <= len(rest) && string(rest[:len(w)]) == w {
				held[(n-1)/64] |= 1 << ((n - 1) % 64)
			}
		}
	}
}
