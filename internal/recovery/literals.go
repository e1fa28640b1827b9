package recovery

// literals finds which of many lower-case literals occur in a line, in one pass over its bytes, whatever their number
// (Aho and Corasick, 1975). Matching ignores ASCII case.
type literals struct {
	class  [256]uint8 // byte → column; 0: occurs in no literal
	width  int        // columns
	next   []uint16   // state*width + column → state
	owners [][]uint16 // state → who wants to know that it was reached
}

// maxLiteralStates bounds the automaton: states are 16 bits wide.
const maxLiteralStates = 1 << 16

// newLiterals builds the automaton of sets[i], i being the owner. It returns nil when the literals are too many.
func newLiterals(sets [][]string) *literals {
	l := &literals{width: 1}
	for _, set := range sets {
		for _, lit := range set {
			for i := 0; i < len(lit); i++ {
				if l.class[lit[i]] == 0 {
					l.class[lit[i]] = uint8(l.width) // at most 230 bytes are in use: lower case has no A-Z
					l.width++
				}
			}
		}
	}
	for c := byte('A'); c <= 'Z'; c++ {
		l.class[c] = l.class[c+'a'-'A']
	}
	l.grow()
	for owner, set := range sets {
		for _, lit := range set {
			state := 0
			for i := 0; i < len(lit); i++ {
				at := state*l.width + int(l.class[lit[i]])
				if l.next[at] == 0 {
					if len(l.owners) == maxLiteralStates {
						return nil
					}
					l.next[at] = l.grow()
				}
				state = int(l.next[at])
			}
			l.owners[state] = append(l.owners[state], uint16(owner))
		}
	}
	l.link()
	return l
}

// grow adds a state.
func (l *literals) grow() uint16 {
	l.next = append(l.next, make([]uint16, l.width)...)
	l.owners = append(l.owners, nil)
	return uint16(len(l.owners) - 1)
}

// link turns the trie into an automaton, breadth first: a missing edge becomes that of the longest proper suffix.
func (l *literals) link() {
	fail := make([]uint16, len(l.owners))
	var queue []uint16
	for c := 0; c < l.width; c++ {
		if s := l.next[c]; s != 0 {
			queue = append(queue, s)
		}
	}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		l.owners[s] = append(l.owners[s], l.owners[fail[s]]...)
		for c := 1; c < l.width; c++ {
			to, suffix := &l.next[int(s)*l.width+c], l.next[int(fail[s])*l.width+c]
			if *to == 0 {
				*to = suffix
				continue
			}
			fail[*to] = suffix
			queue = append(queue, *to)
		}
	}
}

// scan calls found for every occurrence in line, with its owner and the offset of its end.
func (l *literals) scan(line string, found func(owner, end int)) {
	state := uint16(0)
	for i := 0; i < len(line); i++ {
		state = l.next[int(state)*l.width+int(l.class[line[i]])]
		for _, o := range l.owners[state] {
			found(int(o), i+1)
		}
	}
}
