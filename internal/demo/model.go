package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// model stands for a model's provider behind a broken network. It reads a request and resets the connection, for a
// number of requests. Then it answers.
type model struct {
	listener net.Listener
	url      string
	wg       sync.WaitGroup

	mu       sync.Mutex
	resets   int // still to come
	cut      int
	answered int
}

// openModel listens where the workers reach this machine.
func openModel(ctx context.Context, host string, resets int) (*model, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, fmt.Errorf("demo: stand-in for a model: %w", err)
	}
	m := &model{listener: l, url: "http://" + l.Addr().String(), resets: resets}
	m.wg.Go(m.serve)
	return m, nil
}

// serve answers one connection after the other until the listener is closed.
func (m *model) serve() {
	for {
		c, err := m.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			m.answerOne(c)
		}
	}
}

// requestTimeout bounds a conversation.
const requestTimeout = 5 * time.Second

func (m *model) answerOne(c net.Conn) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(requestTimeout)) // fails with the connection, and so does what follows
	req, err := http.ReadRequest(bufio.NewReader(c))
	if err == nil {
		_, err = io.Copy(io.Discard, req.Body)
	}
	if err != nil {
		return // not a request to a model
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if tcp, ok := c.(*net.TCPConn); ok && m.resets > 0 && tcp.SetLinger(0) == nil { // closed without linger is reset
		m.resets--
		m.cut++
		return
	}
	const text = "Go ahead."
	if _, err := fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: "+
		"close\r\n\r\n%s", len(text), text); err == nil {
		m.answered++
	}
}

// counts returns how many connections were cut, and how many were answered.
func (m *model) counts() (cut, answered int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cut, m.answered
}

func (m *model) close() error {
	err := m.listener.Close()
	m.wg.Wait()
	return err
}
