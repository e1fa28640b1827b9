package intake

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// bodies limits how many webhook bodies are read at the same time. The signature can be checked only after the whole
// body has been read, so an unknown sender could occupy all slots with slow bodies. bodies therefore interrupts slow
// reads when another body is waiting for a slot. A single source cannot fill all slots and the queue.
type bodies struct {
	slots chan struct{}

	mu     sync.Mutex
	inside int            // number of bodies waiting or being read
	by     map[string]int // the same count by source address
	open   []*body
}

// body is a webhook body being read.
type body struct {
	began  time.Time
	reader *http.ResponseController
}

func newBodies(most int) *bodies {
	return &bodies{slots: make(chan struct{}, most), by: map[string]int{}}
}

// enter waits for a slot. It returns nil if too many bodies are waiting, after webhookPatience, or when the client
// disconnects. The caller must call leave after reading the body.
func (b *bodies) enter(r *http.Request, reader *http.ResponseController) (leave func()) {
	source, _, _ := net.SplitHostPort(r.RemoteAddr)
	if !b.register(source) {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), webhookPatience)
	defer cancel()
	hurry := time.NewTicker(webhookUnhurried / 10)
	defer hurry.Stop()
	for {
		select {
		case b.slots <- struct{}{}:
			return b.begin(source, reader)
		case <-hurry.C:
			b.interrupt()
		case <-ctx.Done():
			b.mu.Lock()
			b.unregister(source)
			b.mu.Unlock()
			return nil
		}
	}
}

// register reports whether the source may wait for a slot.
func (b *bodies) register(source string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	most := 2 * cap(b.slots)
	if b.inside >= most || b.by[source] >= most*3/4 {
		return false
	}
	b.inside++
	b.by[source]++
	return true
}

// unregister undoes register. The caller must hold mu.
func (b *bodies) unregister(source string) {
	b.inside--
	if b.by[source]--; b.by[source] == 0 {
		delete(b.by, source)
	}
}

func (b *bodies) begin(source string, reader *http.ResponseController) (leave func()) {
	own := &body{time.Now(), reader}
	b.mu.Lock()
	b.open = append(b.open, own)
	b.mu.Unlock()
	return func() {
		b.mu.Lock()
		b.open = slices.DeleteFunc(b.open, func(o *body) bool { return o == own })
		b.unregister(source)
		b.mu.Unlock()
		<-b.slots
	}
}

// interrupt aborts the reads of all bodies that have taken longer than webhookUnhurried. Call it only while another
// body waits for a slot.
func (b *bodies) interrupt() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, o := range b.open {
		if time.Since(o.began) >= webhookUnhurried {
			_ = o.reader.SetReadDeadline(time.Now())
		}
	}
}
