package plaintext

// Literals finds which of many lower-case literals occur in a line, in one pass over its bytes, whatever their number
// (Aho and Corasick, 1975). Matching ignores ASCII case. A state is written as the offset of its row in next, so that
// a step is one addition and one load; the states with owners are the last ones.
type Literals struct {
	class  [256]uint8 // byte → column; 0: occurs in no literal
	width  uint32     // columns
	next   []uint32   // state + column → state
	final  uint32     // the first state that has owners
	owners [][]uint16 // (state-final)/width → owners of the literals that end there
}

// maxLiteralStates bounds the automaton's memory, to about 100 MiB at worst.
const maxLiteralStates = 1 << 18

// trie is an automaton while it grows: states are numbered as they come.
type trie struct {
	*Literals
	owners [][]uint16 // state →
}

// NewLiterals builds the automaton of sets[i], i being the owner. It returns nil when the literals are too many.
func NewLiterals(sets [][]string) *Literals {
	l := &Literals{width: 1}
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
	total := 1
	for _, set := range sets {
		for _, lit := range set {
			total += len(lit)
		}
	}
	l.next = make([]uint32, 0, total*int(l.width))
	t := trie{Literals: l}
	t.grow()
	for owner, set := range sets {
		for _, lit := range set {
			state := uint32(0)
			for i := 0; i < len(lit); i++ {
				at := state*l.width + uint32(l.class[lit[i]])
				if l.next[at] == 0 {
					if len(t.owners) == maxLiteralStates {
						return nil
					}
					to := t.grow()
					l.next[at] = to
				}
				state = l.next[at]
			}
			t.owners[state] = append(t.owners[state], uint16(owner))
		}
	}
	t.link()
	t.arrange()
	return l
}

// grow adds a state.
func (t *trie) grow() uint32 {
	t.next = t.next[:len(t.next)+int(t.width)]
	t.owners = append(t.owners, nil)
	return uint32(len(t.owners) - 1)
}

// link turns the trie into an automaton, breadth first: a missing edge becomes that of the longest proper suffix.
func (t *trie) link() {
	fail := make([]uint32, len(t.owners))
	var queue []uint32
	for c := range t.width {
		if s := t.next[c]; s != 0 {
			queue = append(queue, s)
		}
	}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		t.owners[s] = append(t.owners[s], t.owners[fail[s]]...)
		for c := uint32(1); c < t.width; c++ {
			to, suffix := &t.next[s*t.width+c], t.next[fail[s]*t.width+c]
			if *to == 0 {
				*to = suffix
				continue
			}
			fail[*to] = suffix
			queue = append(queue, *to)
		}
	}
}

// arrange puts the states that have owners last and writes states as offsets. The root stays the first.
func (t *trie) arrange() {
	order := make([]uint32, 0, len(t.owners))
	for _, last := range []bool{false, true} {
		if last {
			t.final = uint32(len(order)) * t.width
		}
		for s := range t.owners {
			if (len(t.owners[s]) > 0) == last {
				order = append(order, uint32(s))
			}
		}
	}
	offset := make([]uint32, len(order))
	for i, s := range order {
		offset[s] = uint32(i) * t.width
	}
	next := make([]uint32, 0, len(t.next))
	for _, s := range order {
		for c := range t.width {
			next = append(next, offset[t.next[s*t.width+c]])
		}
		if len(t.owners[s]) > 0 {
			t.Literals.owners = append(t.Literals.owners, t.owners[s])
		}
	}
	t.next = next
}

// Scan calls found for every occurrence in line, with its owner and the offset of its end.
func (l *Literals) Scan(line string, found func(owner, end int)) {
	state := uint32(0)
	for i := 0; i < len(line); i++ {
		state = l.next[state+uint32(l.class[line[i]])]
		if state >= l.final {
			for _, o := range l.owners[(state-l.final)/l.width] {
				found(int(o), i+1)
			}
		}
	}
}
