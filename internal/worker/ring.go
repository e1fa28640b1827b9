package worker

import "sync"

// ring keeps the newest bytes of a stream. The zero value keeps nothing; see newRing.
type ring struct {
	mu    sync.Mutex
	buf   []byte
	next  int   // where the next byte goes
	total int64 // bytes ever written
}

func newRing(size int) *ring { return &ring{buf: make([]byte, size)} }

// Write keeps the newest len(buf) bytes. It never fails.
func (r *ring) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(p)
	r.total += int64(n)
	if len(p) > len(r.buf) {
		p = p[len(p)-len(r.buf):]
	}
	for len(p) > 0 {
		k := copy(r.buf[r.next:], p)
		p = p[k:]
		r.next = (r.next + k) % len(r.buf)
	}
	return n, nil
}

// tail returns what was kept, oldest byte first, and how many older bytes were dropped.
func (r *ring) tail() (kept []byte, dropped int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.total <= int64(len(r.buf)) {
		return append([]byte(nil), r.buf[:r.total]...), 0
	}
	kept = append(append(make([]byte, 0, len(r.buf)), r.buf[r.next:]...), r.buf[:r.next]...)
	return kept, r.total - int64(len(r.buf))
}
