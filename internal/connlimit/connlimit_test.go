package connlimit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fakeConn is a connection from an address.
type fakeConn struct {
	net.Conn
	from net.Addr
}

func (f fakeConn) RemoteAddr() net.Addr { return f.from }
func (fakeConn) Close() error           { return nil }

func from(t *testing.T, address string) net.Conn {
	t.Helper()
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return fakeConn{from: net.TCPAddrFromAddrPort(a)}
}

// TestTries checks that each source has its own limit, and that the number of remembered sources is limited.
func TestTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := NewTries(1, 2)
		if !tries.Allow("10.0.0.1:1") || !tries.Allow("10.0.0.1:2") || tries.Allow("[::ffff:10.0.0.1]:3") {
			t.Error("a source has two tries")
		}
		if !tries.Allow("10.0.0.2:1") {
			t.Error("another source is refused")
		}
		for i := range 2 * maxSources {
			tries.Allow(fmt.Sprintf("10.1.%d.%d:1", i/256, i%256))
		}
		if n := len(tries.sources); n != maxSources {
			t.Errorf("%d sources are remembered", n)
		}
		if time.Sleep(time.Second); !tries.Allow("10.0.0.3:1") || !tries.Allow("10.0.0.1:4") {
			t.Error("a try is refused after a pause")
		}
	})
}

// TestLimits checks the limits on connections in total, per source and per second, and on the number of sources.
func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Limits{PerSource: 2, Local: 3, Total: 5, Pace: 10}, nil)
		enter := func(address string) *conn {
			c, _, _ := l.admit(from(t, address))
			return c
		}
		first := enter("10.0.0.1:1")
		if first == nil || enter("10.0.0.1:2") == nil || enter("10.0.0.1:3") != nil {
			t.Error("a source has two")
		}
		if enter("[2001:db8::1]:1") == nil || enter("[2001:db8::2]:1") == nil || enter("[2001:db8::3]:1") != nil {
			t.Error("one network is one source")
		}
		if enter("127.0.0.1:1") == nil || enter("127.0.0.1:2") != nil {
			t.Error("five in all")
		}
		for range 2 { // the second Close must not count
			_ = first.Close()
		}
		for range 2 {
			c := enter("[::ffff:10.0.0.1]:4")
			if c == nil {
				t.Fatal("no room after a connection was closed")
			}
			_ = c.Close()
		}
		let := 0
		for range 1000 {
			if c := enter("10.0.0.9:1"); c != nil {
				let++
				_ = c.Close()
			}
		}
		if let != minBurst {
			t.Errorf("%d at once, want %d", let, minBurst)
		}
		time.Sleep(time.Second)
		if c := enter("10.0.0.9:1"); c == nil {
			t.Error("a second later")
		} else {
			_ = c.Close()
		}
		for i := range maxSources + 64 { // an attacker may have any number of addresses
			if c := enter("10.1." + strconv.Itoa(i/256) + "." + strconv.Itoa(i%256) + ":1"); c != nil {
				_ = c.Close()
			}
		}
		if n := len(l.sources); n > maxSources {
			t.Errorf("%d sources are remembered", n)
		}
		time.Sleep(time.Hour)
		if !l.forget() {
			t.Error("no source was forgotten")
		}
	})
}

// TestWhoGivesWay checks which connection a new connection replaces if the limit is reached.
func TestWhoGivesWay(t *testing.T) {
	for _, x := range []struct {
		name    string
		open    string // connections in order: source, and w for waiting or a for active
		from    string
		replace int // index in open, or -1 if the newcomer is refused
	}{
		{"the longest waiting", "1a 1w 1w", "2", 1},
		{"of the largest source", "2w 1w 1w", "3", 1},
		{"a smaller source", "2w 1a 1a", "3", 0},
		{"none waits: the newest of the largest source", "2a 1a 1a", "3", 2},
		{"none waits, and the newcomer would have as many", "1a 1a 2a", "2", -1},
		{"none waits, all sources equal", "1a 2a 3a", "4", -1},
		{"a source replaces its own", "1w 1w 1a", "1", 0},
	} {
		l := New(Limits{Total: 3}, nil)
		var all []*conn
		for i := 0; i < len(x.open); i += 3 {
			c, _, _ := l.admit(from(t, "10.0.0."+x.open[i:i+1]+":1"))
			state := http.StateActive
			if x.open[i+1] == 'w' {
				state = http.StateNew
			}
			l.State(c, state)
			all = append(all, c)
		}
		c, replaced, _ := l.admit(from(t, "10.0.0."+x.from+":1"))
		if (c == nil) != (x.replace < 0) || x.replace >= 0 && replaced != all[x.replace] || l.Open() != 3 {
			t.Errorf("%s: admitted %t, replaced %v, %d open", x.name, c != nil, replaced, l.Open())
		}
	}
}

// TestHeldRequests checks that clients with incomplete requests do not prevent others from connecting.
func TestHeldRequests(t *testing.T) {
	const most = 20
	l := New(Limits{Total: most}, nil)
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		ConnState: l.State, ConnContext: l.Context, ReadHeaderTimeout: time.Minute,
		Handler: l.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, "here")
		})),
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(l.Listener(inner)); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	defer serving.Wait()
	defer server.Close()
	dial := func() net.Conn {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	for i := range 5 * most {
		hold(dial(), i)
		if l.Open() > most {
			t.Fatalf("%d connections are open", l.Open())
		}
	}
	for range 10 {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+inner.Addr().String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
		if err != nil {
			t.Fatalf("a client that sends its request: %v", err)
		}
		_ = answer.Body.Close()
		cancel()
	}
}

// hold keeps the connection open after a complete request, an incomplete request, or without a request. n selects the
// case.
func hold(c net.Conn, n int) {
	switch n % 4 {
	case 0: // sends nothing
	case 1:
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n")
	case 2: // idle after a request
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		if a, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil {
			_, _ = io.Copy(io.Discard, a.Body)
		}
	case 3:
		_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345")
	}
}
