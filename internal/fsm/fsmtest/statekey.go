package fsmtest

import (
	"time"

	"retake/internal/fsm"
)

// key is the state's sum: equal for states that differ in nothing but the names of their two issues, or in when they
// were reached.
func (n *node) key() uint64 {
	straight := n.sum(nil)
	if len(n.w.issues) < 2 {
		return straight
	}
	return min(straight, n.sum(&swapped))
}

// swapped spells x as y and y as x.
var swapped = func() (letters [256]byte) {
	for i := range letters {
		letters[i] = byte(i)
	}
	letters['x'], letters['y'] = 'y', 'x'
	return letters
}()

func (n *node) sum(letters *[256]byte) uint64 {
	w := n.w
	now := w.wall(w.lead)
	h := hash{from: now, letters: letters}
	for i, p := range w.directors() {
		if p == nil {
			h.add(uint64(100 + i))
			continue
		}
		sum(decisive, p.d, &h)
		h.add(p.told)
		h.add(boolean(p.batch != nil) | boolean(p.dead)<<1 | boolean(p.d.Last() == w.journal.last)<<2)
		h.unordered(len(p.flight), func(i int, one *hash) { one.text(p.flight[i].effect.ID) })
	}
	h.unordered(len(w.issues), func(i int, one *hash) {
		x := w.issues[i]
		one.text(string(x.key))
		one.text(x.nonce)
		one.text(x.asked)
		one.add(uint64(x.labels) | boolean(x.open)<<8)
		one.text(x.delivered)
		one.text(x.reclaimed)
		one.text(x.ended)
		one.add(uint64(x.reclaimedAt))
		one.add(uint64(x.answersAt))
		one.text(x.validatedBy)
		one.add(boolean(x.validated == x.work))
		if p := x.pull; p != nil {
			one.text(p.state)
			one.add(uint64(p.number) | uint64(p.head)<<32 | uint64(len(p.changes))<<48 | boolean(p.failing)<<60)
		}
	})
	h.unordered(len(w.containers), func(i int, one *hash) {
		b := w.containers[i]
		one.text(b.attempt)
		one.add(boolean(b.listed) | boolean(b.running)<<1 | boolean(b.welcomed)<<2 | boolean(b.orphan)<<3 | uint64(
			b.sent)<<4 | uint64(b.patience)<<8 | boolean(b.validates)<<16 |
			boolean(b.pending)<<17 | boolean(b.lost)<<18 | boolean(b.told)<<19 | boolean(b.revoked)<<20 | boolean(
			b.travels)<<21)
	})
	h.unordered(len(w.reports), func(i int, one *hash) {
		r := w.reports[i]
		one.text(r.worker)
		one.text(r.body.Ref.ID)
		one.add(boolean(r.acked) | boolean(r.body.OK)<<1 | boolean(r.waits)<<2)
	})
	h.unordered(len(n.messages), func(i int, one *hash) { one.text(n.messages[i].worker) })
	h.unordered(len(w.comments), func(i int, one *hash) {
		c := w.comments[i]
		one.text(string(c.said.Task) + string(c.said.Command))
		one.add(uint64(c.said.Comment))
	})
	h.add(uint64(len(w.history.taken)))
	h.add(w.journal.sum(letters, now, w.lead.cfg))
	l := n.left
	for _, x := range [...]int{
		l.drops, l.doubles, l.failures, l.deaths, l.bad, l.crashes, l.stale, l.silence,
		l.reviews, l.words, l.lost, l.back,
	} {
		h.add(uint64(x))
	}
	return h.sum
}

// unordered adds elements whose order means nothing.
func (h *hash) unordered(n int, each func(int, *hash)) {
	var all uint64
	for i := range n {
		one := hash{from: h.from, letters: h.letters}
		each(i, &one)
		all += one.sum * 0xBF58476D1CE4E5B9
	}
	h.add(all + uint64(n))
}

func boolean(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// sum is the sum of the state that a restart would find.
func (j *journal) sum(letters *[256]byte, now time.Time, cfg fsm.Config) uint64 {
	if j.read == nil {
		j.read = fsm.New(cfg)
	}
	for ; j.readTo < len(j.batches); j.readTo++ {
		j.read.Replay(j.batches[j.readTo].records)
	}
	h := hash{from: now, letters: letters}
	sum(hardState, j.read, &h)
	return h.sum
}
