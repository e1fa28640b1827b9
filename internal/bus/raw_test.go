package bus

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"retake/internal/bus/server"
)

// place is a bus with a server that workers reach over TCP.
type place struct {
	*Bus
	options Options
	restart func() // restarts the server, and with an embedded server the director
	folder  string // directory of the keys
}

// everywhere runs a test on an embedded server and on a joined server.
func everywhere(t *testing.T, test func(*testing.T, *place)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		o := server.Options{Dir: t.TempDir(), ListenHosts: []string{"127.0.0.1"}}
		p := &place{folder: filepath.Join(o.Dir, "keys")}
		open := func() { p.Bus = openBus(t, Options{Server: startServer(t, o)}) }
		p.restart = func() { closeBus(t, p.Bus); open() }
		open()
		test(t, p)
	})
	t.Run("joined", func(t *testing.T) {
		out := startOutside(t)
		p := &place{folder: out.Keys}
		p.options = out.join()
		p.restart = func() { out.restart(p.Bus) }
		p.Bus = openBus(t, p.options)
		test(t, p)
	})
}

// tcp returns a worker's options for a connection over TCP.
func (p *place) tcp(t *testing.T, id string) ClientOptions {
	t.Helper()
	o := clientOptions(t, p.Bus, id)
	o.InProcess, o.URL = nil, p.WorkerURL("127.0.0.1")
	return o
}

func (p *place) dialTCP(t *testing.T, id string) *Client {
	t.Helper()
	c, err := Dial(p.tcp(t, id))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// raw speaks NATS's protocol directly, so no client library limits what it sends.
type raw struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
	info struct {
		Nonce      string `json:"nonce"`
		MaxPayload int    `json:"max_payload"`
	}
}

// dialRaw connects and reads the server's first line.
func (p *place) dialRaw(t *testing.T) *raw {
	t.Helper()
	u, err := url.Parse(p.WorkerURL("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	r := &raw{t: t}
	if u.Scheme == "tls" {
		trusted := x509.NewCertPool()
		trusted.AppendCertsFromPEM([]byte(p.Bus.options.Keys.CA()))
		r.conn, err = tls.Dial("tcp", u.Host, &tls.Config{RootCAs: trusted})
	} else {
		r.conn, err = net.Dial("tcp", u.Host)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.conn.Close() })
	r.in = bufio.NewReader(r.conn)
	line := r.read()
	if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "INFO ")), &r.info); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return r
}

// line returns the server's next answer, or "" if the server has closed the connection. It skips the server's
// information and pings, which come at any time.
func (r *raw) line() string {
	r.t.Helper()
	for {
		switch line := r.read(); {
		case line == "PING":
			r.send("PONG")
		case !strings.HasPrefix(line, "INFO "):
			return line
		}
	}
}

func (r *raw) read() string {
	r.t.Helper()
	if err := r.conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		r.t.Fatal(err)
	}
	line, err := r.in.ReadString('\n')
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		r.t.Fatal("the server does not send an error or disconnect")
	}
	return strings.TrimSpace(line)
}

func (r *raw) send(format string, args ...any) {
	_, _ = fmt.Fprintf(r.conn, format+"\r\n", args...) // the next read reports a closed connection
}

// signIn sends a credential unchanged, followed by a ping, and returns the server's answer.
func (r *raw) signIn(token, seed string) string {
	r.t.Helper()
	connect := map[string]any{
		"verbose": false, "pedantic": false, "lang": "raw", "version": "0", "protocol": 1,
		"headers": true, "no_responders": true,
	}
	if token != "" {
		connect["jwt"] = token
	}
	if seed != "" {
		pair, err := nkeys.FromSeed([]byte(seed))
		if err != nil {
			r.t.Fatal(err)
		}
		sig, err := pair.Sign([]byte(r.info.Nonce))
		if err != nil {
			r.t.Fatal(err)
		}
		connect["sig"] = base64.RawURLEncoding.EncodeToString(sig)
	}
	data, err := json.Marshal(connect)
	if err != nil {
		r.t.Fatal(err)
	}
	r.send("CONNECT %s", data)
	r.send("PING")
	return r.line()
}

// refused returns the server's response to a forbidden command: its refusal and the answer to a ping.
func (r *raw) refused(what string) {
	r.t.Helper()
	r.send("PING")
	if line := r.line(); !strings.HasPrefix(line, "-ERR 'Permissions Violation") {
		r.t.Errorf("%s: %q", what, line)
		return
	}
	if line := r.line(); line != "PONG" {
		r.t.Errorf("%s: %q after the refusal", what, line)
	}
}
