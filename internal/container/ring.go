package container

import (
	"sync"
	"unicode/utf8"
)

// tailBytes is how much of each stream is kept: worker_error.v1 carries two tails within the bus's 64 KiB.
const tailBytes = 32 << 10

// ring keeps the newest bytes that were written to it. The zero value is ready; it grows to limit only when needed.
type ring struct {
	mu    sync.Mutex
	limit int // bytes; 0 means tailBytes
	buf   []byte
	next  int  // where the next byte goes, once full
	full  bool // buf has reached its limit and wraps
}

// Write never fails and never blocks: a container must not wait for who reads its output.
func (r *ring) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	written := len(p)
	limit := r.limit
	if limit == 0 {
		limit = tailBytes
	}
	if !r.full {
		room := min(limit-len(r.buf), len(p))
		r.buf = append(r.buf, p[:room]...)
		p = p[room:]
		r.full = len(p) > 0 // exactly full has lost nothing yet
	}
	if len(p) > limit {
		p = p[len(p)-limit:]
	}
	for len(p) > 0 {
		n := copy(r.buf[r.next:], p)
		r.next = (r.next + n) % limit
		p = p[n:]
	}
	return written, nil
}

// tail returns a copy, oldest byte first. When older bytes were dropped it starts at a UTF-8 boundary.
func (r *ring) tail() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.full {
		return append([]byte(nil), r.buf...)
	}
	out := append(append(make([]byte, 0, len(r.buf)), r.buf[r.next:]...), r.buf[:r.next]...)
	for cut := 0; cut < utf8.UTFMax && cut < len(out); cut++ {
		if utf8.RuneStart(out[cut]) {
			return out[cut:]
		}
	}
	return out // not UTF-8 at all
}
