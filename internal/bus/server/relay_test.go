package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
)

// dialFrom connects from one of this machine's addresses.
func dialFrom(t *testing.T, from, to string) (net.Conn, error) {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 5 * time.Second}
	return d.DialContext(t.Context(), "tcp", to)
}

func (s *Server) address(host string) string { return net.JoinHostPort(host, strconv.Itoa(s.port)) }

// Two hostile sources open connections as fast as they can and keep them open, with and without signing in. An honest
// client can still connect.
func TestAFloodOfConnectionsIsKeptOut(t *testing.T) {
	o := loopback(t)
	o.MaxWorkers = 3
	s := start(t, o)
	if _, err := signIn(t, s, "127.0.0.1"); err != nil {
		t.Fatal(err)
	}
	before := resident(t)
	ctx, stopFlood := context.WithTimeout(t.Context(), time.Minute)
	defer stopFlood()
	var flood sync.WaitGroup
	var mu sync.Mutex
	opened, peak := 0, 0
	for _, from := range []string{"127.0.0.2", "127.0.0.3"} {
		flood.Go(func() {
			openMany(ctx, t, from, s.address("127.0.0.1"), func() {
				mu.Lock()
				defer mu.Unlock()
				opened++
			})
		})
	}
	const enough = 3000
	flooded := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return opened >= enough
	}
	honest := 0
	for honest < 5 || !flooded() && ctx.Err() == nil {
		nc, err := signIn(t, s, "127.0.0.1")
		if err != nil {
			t.Errorf("an honest connection: %v", err)
			break
		}
		nc.Close()
		honest++
		peak = max(peak, s.relay.limiter.Open())
		time.Sleep(50 * time.Millisecond)
	}
	stopFlood()
	grown := resident(t) - before
	flood.Wait()
	t.Logf("%d connections opened, at most %d at a time let in, %d honest ones; grown by %d MB", opened, peak, honest,
		grown>>20)
	if opened < enough || peak > limitsFor(o.MaxWorkers).Total {
		t.Errorf("%d opened, %d let in, want at most %d", opened, peak, limitsFor(o.MaxWorkers).Total)
	}
	if grown > 64<<20 {
		t.Errorf("grown by %d MB", grown>>20)
	}
}

// openMany opens connections until ctx is done, and holds at most 500 of them.
func openMany(ctx context.Context, t *testing.T, from, to string, opened func()) {
	var held []net.Conn
	for ctx.Err() == nil {
		c, err := dialFrom(t, from, to)
		if err != nil {
			continue
		}
		held = append(held, c)
		opened()
		if len(held) > 500 { // to save descriptors
			_ = held[0].Close()
			held = held[1:]
		}
	}
	for _, c := range held {
		_ = c.Close()
	}
}

// resident returns this process's resident memory in bytes.
func resident(t *testing.T) int {
	t.Helper()
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(data))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// Data above the rate limit of a connection arrives late but complete.
func TestARelaySlowsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outside, near := net.Pipe()
		far, inside := net.Pipe()
		r := &relay{
			connect: func(context.Context) (net.Conn, error) { return far, nil },
			log:     zap.NewNop(),
		}
		var running sync.WaitGroup
		running.Go(func() { r.serve(t.Context(), near, nil) })
		const size = bytesBurst + 3*bytesPerSecond
		sent := bytes.Repeat([]byte("0123456789abcdef"), size/16)
		running.Go(func() {
			_, _ = outside.Write(sent)
			_ = outside.Close()
		})
		began := time.Now()
		got, err := io.ReadAll(inside)
		if took := time.Since(began); err != nil || !bytes.Equal(got, sent) || took < 2900*time.Millisecond ||
			took > 3100*time.Millisecond {
			t.Errorf("%d bytes in %s, %v", len(got), took, err)
		}
		_ = inside.Close()
		running.Wait()
	})
}

// The relay drops a remote peer that does not read.
func TestARelayLeavesWhoDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, near := net.Pipe()
		far, inside := net.Pipe()
		r := &relay{
			connect: func(context.Context) (net.Conn, error) { return far, nil },
			log:     zap.NewNop(),
		}
		go func() { _, _ = inside.Write(make([]byte, 1<<20)) }()
		began := time.Now()
		r.serve(t.Context(), near, nil)
		if took := time.Since(began); took != writeTimeout {
			t.Errorf("after %s", took)
		}
		_ = inside.Close()
	})
}

// On hosts that other machines can reach, the bus accepts only TLS.
func TestListenersForOthersSpeakTLS(t *testing.T) {
	t.Parallel()
	host := outwardAddress(t)
	s := start(t, Options{Dir: t.TempDir(), ListenHosts: []string{"127.0.0.1", host}})
	if u := s.URL("127.0.0.1"); !strings.HasPrefix(u, "nats://") {
		t.Errorf("loopback: %s", u)
	}
	if u := s.URL(host); !strings.HasPrefix(u, "tls://") {
		t.Errorf("%s: %s", host, u)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM([]byte(s.Keys().CA()))
	secure := []nats.Option{nats.Secure(&tls.Config{RootCAs: trusted}), nats.TLSHandshakeFirst()}
	if _, err := signIn(t, s, host, secure...); err != nil {
		t.Error(err)
	}
	if _, err := signIn(t, s, host, nats.Secure(&tls.Config{RootCAs: x509.NewCertPool()}),
		nats.TLSHandshakeFirst()); err == nil {
		t.Error("a certificate of another bus is trusted")
	}
	c, err := net.DialTimeout("tcp", s.address(host), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	began := time.Now()
	if err := c.SetReadDeadline(began.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if said, _ := io.ReadAll(c); len(said) > 0 || time.Since(began) > 2*handshakeTimeout {
		t.Errorf("without a handshake: %q after %s", said, time.Since(began))
	}
}

// outwardAddress returns an address of this machine that other machines can reach.
func outwardAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
			return n.IP.String()
		}
	}
	t.Skip("this machine has no address but loopback: TLS for others is not tried")
	return ""
}

// A relay in front of another server forwards TLS unchanged.
func TestARelayOfItsOwn(t *testing.T) {
	host := outwardAddress(t)
	s := start(t, Options{Dir: t.TempDir(), ListenHosts: []string{host}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stopRelay := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { Relay(ctx, l, s.address(host), DefaultLimits, zap.NewNop()) })
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM([]byte(s.Keys().CA()))
	user, err := s.Keys().Journal()
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect("tls://"+l.Addr().String(), nats.Secure(&tls.Config{RootCAs: trusted}),
		nats.TLSHandshakeFirst(), nats.UserJWTAndSeed(user.JWT, user.Seed), nats.NoReconnect())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	stopRelay()
	running.Wait()
	for began := time.Now(); nc.IsConnected(); time.Sleep(2 * time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatal("a connection outlives its relay")
		}
	}
}
