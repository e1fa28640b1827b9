package checkouts

import "sync/atomic"

// Pass is an admitted worker's access to its checkout. The zero Pass is open.
type Pass struct {
	sealed atomic.Bool   // set once the worker may no longer read or write the checkout
	stored atomic.Int64  // bytes received so far
	opened atomic.Uint64 // number of times that the checkout was opened
}

func (p *Pass) open() {
	if p != nil {
		p.sealed.Store(false)
		p.opened.Add(1)
	}
}

func (p *Pass) close() {
	if p != nil {
		p.sealed.Store(true)
	}
}
