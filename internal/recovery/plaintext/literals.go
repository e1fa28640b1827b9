package plaintext

// Literals finds any number of lower-case literals in a line in one pass (Aho and Corasick, 1975). Matching ignores
// ASCII case. A state is the offset of its row in next, so that a step is one addition and one load. The states with
// owners come last.
type Literals struct {
	class  [256]uint8 // byte → column; 0 for bytes that occur in no literal
	width  uint32     // columns
	next   []uint32   // state + column → state
	final  uint32     // the first state with owners
	owners [][]uint16 // (state-final)/width → owners of the literals that end there
	long   int        // bytes of the longest literal
}

// maxLiteralStates limits the automaton's memory to about 100 MiB.
const maxLiteralStates = 1 << 18

// trie is an automaton under construction. States are numbered in order of creation.
type trie struct {
	*Literals
	owners [][]uint16 // state →
}

// NewLiterals builds the automaton. The owner of a literal is the index of its set. NewLiterals returns nil if there
// are too many literals.
func NewLiterals(sets [][]string) *Literals {
	l := &Literals{width: 1}
	for _, set := range sets {
		for _, lit := range set {
			for i := 0; i < len(lit); i++ {
				if l.class[lit[i]] == 0 {
					l.class[lit[i]] = uint8(l.width) // at most 230 columns: literals do not contain A-Z
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
			l.long = max(l.long, len(lit))
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

// grow adds a state to the trie.
func (t *trie) grow() uint32 {
	t.next = t.next[:len(t.next)+int(t.width)]
	t.owners = append(t.owners, nil)
	return uint32(len(t.owners) - 1)
}

// link turns the trie into an automaton, breadth first. A missing edge leads to the target of the longest proper
// suffix.
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

// arrange moves the states with owners to the end, and writes states as offsets. The root stays first.
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

// Scan calls found for every occurrence, with its owner and end offset, in order of the end offsets. If several
// literals have the same end, the longest comes first.
func (l *Literals) Scan(text string, found func(owner, end int)) {
	part := len(text) / lanes
	if part < shortestPart*l.long {
		l.scan(text, 0, 0, found)
		return
	}
	hits := l.scanParts(text, part)
	for i := range hits {
		for _, h := range hits[i] {
			for _, o := range l.owners[(h.state-l.final)/l.width] {
				found(int(o), int(h.end))
			}
		}
	}
	l.scan(text, lanes*part-l.long, lanes*part, found)
}

// Crossing counts the occurrences in left+between+right that begin before right and end in it.
func (l *Literals) Crossing(left, between, right string) (n int) {
	across, alone := uint32(0), uint32(0) // states after all texts so far, and after right only
	for _, part := range [...]string{left, between} {
		for i := 0; i < len(part); i++ {
			across = l.next[across+uint32(l.class[part[i]])]
		}
	}
	for i := 0; i < len(right) && across != alone; i++ { // once equal, the states stay equal
		across = l.next[across+uint32(l.class[right[i]])]
		alone = l.next[alone+uint32(l.class[right[i]])]
		n += l.ends(across) - l.ends(alone)
	}
	return n
}

// ends returns the number of literals that end at a state.
func (l *Literals) ends(state uint32) int {
	if state < l.final {
		return 0
	}
	return len(l.owners[(state-l.final)/l.width])
}

// scan is like Scan, but starts at the offset from and reports only literals that end after the offset behind.
func (l *Literals) scan(text string, from, behind int, found func(owner, end int)) {
	state := uint32(0)
	for i := max(0, from); i < len(text); i++ {
		state = l.next[state+uint32(l.class[text[i]])]
		if state >= l.final && i >= behind {
			for _, o := range l.owners[(state-l.final)/l.width] {
				found(int(o), i+1)
			}
		}
	}
}

// Each step depends on the previous one, so a single pass would leave the processor idle most of the time. Scan
// therefore divides a long text among several lanes, and advances all lanes together.
const (
	lanes        = 4
	hitsOfLane   = 32 // initial capacity
	shortestPart = 4  // minimum part per lane, in lengths of the longest literal; a lane starts one length earlier
)

// hit is the end of one or more literals.
type hit struct {
	state uint32
	end   uint32
}

// scanParts scans the first lanes*part bytes of a text, part bytes in each lane. Each lane starts early enough to find
// the literals that reach into its part.
func (l *Literals) scanParts(text string, part int) (hits [lanes][]hit) {
	var state [lanes]uint32
	all := make([]hit, lanes*hitsOfLane)
	for k := range hits {
		hits[k] = all[k*hitsOfLane : k*hitsOfLane : (k+1)*hitsOfLane]
	}
	for k := 1; k < lanes; k++ {
		for i := k*part - min(l.long, k*part); i < k*part; i++ {
			state[k] = l.next[state[k]+uint32(l.class[text[i]])]
		}
	}
	next, class, final := l.next, &l.class, l.final
	a, b, c, d := state[0], state[1], state[2], state[3]
	t0, t1, t2, t3 := text[:part], text[part:][:part], text[2*part:][:part], text[3*part:][:part]
	for i := range part {
		a = next[a+uint32(class[t0[i]])]
		b = next[b+uint32(class[t1[i]])]
		c = next[c+uint32(class[t2[i]])]
		d = next[d+uint32(class[t3[i]])]
		if a < final && b < final && c < final && d < final {
			continue
		}
		for k, s := range [lanes]uint32{a, b, c, d} {
			if s >= final {
				hits[k] = append(hits[k], hit{s, uint32(k*part + i + 1)})
			}
		}
	}
	return hits
}
