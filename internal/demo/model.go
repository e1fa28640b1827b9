package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// model simulates a model provider behind a broken network. It reads the first few requests and then resets their
// connections, but answers later requests.
type model struct {
	server http.Server
	url    string
	wg     sync.WaitGroup

	mu       sync.Mutex
	resets   int // remaining resets
	cut      int
	answered int
}

// openModel starts the model on host, at an address that workers can reach.
func openModel(ctx context.Context, host string, resets int) (*model, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, fmt.Errorf("demo: start the fake model provider: %w", err)
	}
	m := &model{url: "http://" + l.Addr().String(), resets: resets}
	m.server.Handler, m.server.ReadTimeout = m, requestTimeout
	m.wg.Go(func() { _ = m.server.Serve(l) }) // returns when close closes the server
	return m, nil
}

// requestTimeout limits the time to read a request.
const requestTimeout = 5 * time.Second

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.resets == 0 {
		if _, err := io.WriteString(w, "Go ahead."); err == nil {
			m.answered++
		}
		return
	}
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := c.(*net.TCPConn); ok && errors.Join(tcp.SetLinger(0), tcp.Close()) == nil { // 0 means reset
		m.resets--
		m.cut++
	}
}

// counts returns how many connections were reset, and how many were answered.
func (m *model) counts() (cut, answered int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cut, m.answered
}

func (m *model) close() error {
	err := m.server.Close()
	m.wg.Wait()
	return err
}
