package classify

import "encoding/binary"

// vocabulary holds the lower-case words that patterns look for in a line.
type vocabulary struct {
	words []string
	ids   map[string]uint16
	next  []link // the previous word with the same hash, for each word
	// The index plus 1 of the last word with a given hash of its first bytes, or 0. Many words start the same way, such
	// as "not found" and "not allowed", so long words have a separate table that hashes more bytes.
	short, long [1 << hashBits]uint16
}

// link is one entry in the list of words with the same hash. Its length and last byte rule out most candidates without
// a word comparison.
type link struct {
	next   uint16 // index of the previous word plus 1, or 0
	length uint8  // length of the word, at most 255
	last   byte   // the word's byte at length-1
}

const (
	shortestWord = 3 // in bytes; shorter words are too common
	longWord     = 6 // words of at least this length are hashed by their first longWord bytes
	hashBits     = 14

	shortMask = 1<<(8*shortestWord) - 1
	longMask  = 1<<(8*longWord) - 1
	padding   = 8 // number of bytes that find may read past a line
)

// idsOf returns the ids of words, and adds unknown words to the vocabulary.
func (v *vocabulary) idsOf(words []string) []uint16 {
	ids := make([]uint16, 0, len(words))
	for _, w := range words {
		id, known := v.ids[w]
		if !known {
			id = uint16(len(v.words))
			at := v.first(w)
			length := min(len(w), 255)
			v.words, v.next = append(v.words, w), append(v.next, link{*at, uint8(length), w[length-1]})
			v.ids[w], *at = id, id+1
		}
		ids = append(ids, id)
	}
	return ids
}

// first returns the head of the list for a word.
func (v *vocabulary) first(word string) *uint16 {
	var begin [padding]byte
	copy(begin[:], word)
	n := binary.LittleEndian.Uint64(begin[:])
	if len(word) < longWord {
		return &v.short[hash(n&shortMask)]
	}
	return &v.long[hash(n&longMask)]
}

func hash(n uint64) uint64 { return n * 0x9e3779b97f4a7c15 >> (64 - hashBits) }

// find sets the bits of the words in a lower-case line. The line needs padding bytes of spare capacity.
func (v *vocabulary) find(line []byte, held []uint64) {
	padded := line[:len(line)+padding]
	for i := 0; i+shortestWord <= len(line); i++ {
		begin := binary.LittleEndian.Uint64(padded[i:])
		if n := v.short[hash(begin&shortMask)]; n != 0 {
			v.follow(n, line[i:], held)
		}
		if n := v.long[hash(begin&longMask)]; n != 0 {
			v.follow(n, line[i:], held)
		}
	}
}

// follow walks the list of words from n, and sets the bits of the words that are prefixes of rest.
func (v *vocabulary) follow(n uint16, rest []byte, held []uint64) {
	for ; n != 0; n = v.next[n-1].next {
		l := &v.next[n-1]
		if int(l.length) > len(rest) || l.last != rest[l.length-1] {
			continue
		}
		if w := v.words[n-1]; len(w) <= len(rest) && string(rest[:len(w)]) == w {
			held[(n-1)/64] |= 1 << ((n - 1) % 64)
		}
	}
}
