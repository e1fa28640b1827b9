package fsmtest

// moves lists what can happen to a container's place in a cluster.
func (n *node) moves(out []step, b *container, j uint8) []step {
	if b.pending {
		out = append(out, step{isPlaced, j, 0})
	}
	if b.running && !b.lost && n.left.lost > 0 {
		out = append(out, step{isCutOff, j, 0})
	}
	if b.lost && n.left.back > 0 {
		out = append(out, step{isBack, j, 0})
	}
	return out
}

// move makes one of these steps.
func (n *node) move(s step) {
	b := n.w.containers[s.a]
	switch s.kind {
	case isPlaced:
		b.pending, b.running = false, true
	case isCutOff:
		n.left.lost--
		b.lost = true
	case isBack:
		n.left.back--
		n.w.returns(b)
	}
}
