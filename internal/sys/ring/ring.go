package ring

import (
	"sync"
	"unicode/utf8"
)

// Buffer keeps the newest bytes that were written to it. Create it with New.
type Buffer struct {
	mu      sync.Mutex
	limit   int
	buf     []byte // grows to limit only when needed
	next    int    // index of the next byte when buf is full
	dropped int64
}

// New returns a Buffer that keeps at most limit bytes, which must be more than zero.
func New(limit int) *Buffer { return &Buffer{limit: limit} }

// Write stores p, and drops the oldest bytes above the limit. It never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	written := len(p)
	room := min(b.limit-len(b.buf), len(p))
	b.buf, p = append(b.buf, p[:room]...), p[room:]
	b.dropped += int64(len(p))
	for p = p[max(0, len(p)-b.limit):]; len(p) > 0; {
		n := copy(b.buf[b.next:], p)
		b.next, p = (b.next+n)%b.limit, p[n:]
	}
	return written, nil
}

// Tail returns a copy of the kept bytes, oldest first, and the number of dropped bytes. If bytes were dropped, the copy
// starts at a UTF-8 boundary, unless the bytes are not UTF-8.
func (b *Buffer) Tail() (kept []byte, dropped int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	kept = append(append(make([]byte, 0, len(b.buf)), b.buf[b.next:]...), b.buf[:b.next]...)
	for cut := 0; b.dropped > 0 && cut < min(utf8.UTFMax, len(kept)); cut++ {
		if utf8.RuneStart(kept[cut]) {
			return kept[cut:], b.dropped + int64(cut)
		}
	}
	return kept, b.dropped
}

// Bytes returns a copy of the kept bytes; see Tail.
func (b *Buffer) Bytes() []byte {
	kept, _ := b.Tail()
	return kept
}

// String returns Bytes as a string.
func (b *Buffer) String() string { return string(b.Bytes()) }
