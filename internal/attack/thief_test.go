package attack

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"retake/internal/bus/wire"
)

// thief is a connection that signs in with the attacker's credential, and records the errors that the server reports.
type thief struct {
	*nats.Conn
	mu      sync.Mutex
	refused []string
}

// elsewhere dials from an address that only attackers use. The server counts connections by address, and each real
// container has its own address.
var elsewhere = &net.Dialer{Timeout: 5 * time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 66)}}

// address is the source address of one played worker. Each worker has its own, as each container has, so the server
// does not count one worker's offences against others.
type address struct {
	net.Dialer
	host string // host to connect to
}

var addresses atomic.Uint32

func anAddress() *address {
	n := addresses.Add(1)
	return &address{Dialer: net.Dialer{
		Timeout:   5 * time.Second,
		LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, byte(n>>8), byte(n))},
	}}
}

// to returns a provider of connections from the address to a server.
func (a *address) to(server string) (nats.InProcessConnProvider, error) {
	u, err := url.Parse(server)
	if err != nil {
		return nil, err
	}
	return &address{Dialer: a.Dialer, host: u.Host}, nil
}

// InProcessConn returns a TCP connection, in spite of its name.
func (a *address) InProcessConn() (net.Conn, error) { return a.Dial("tcp", a.host) }

// steal signs in with the credential of a played worker.
func (p *played) steal(more ...nats.Option) (*thief, error) {
	t := &thief{}
	options := append(stolen(p.Plan), nats.NoReconnect(), nats.Timeout(5*time.Second), nats.SetCustomDialer(elsewhere),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.refused = append(t.refused, err.Error())
		}))
	var err error
	t.Conn, err = nats.Connect(p.Plan.Bus.URL, append(options, more...)...)
	return t, err
}

// refusals returns the number of recorded errors. It waits up to ten seconds until there are at least awaited errors.
func (t *thief) refusals(awaited int) (n int) {
	_ = t.FlushTimeout(5 * time.Second)
	_ = until("refusals", 10*time.Second, func() bool {
		t.mu.Lock()
		defer t.mu.Unlock()
		n = len(t.refused)
		return n >= awaited
	})
	return n
}

func subjects(p *played) wire.Subjects { return wire.Subjects{Prefix: p.Plan.Bus.Prefix} }

func (p *played) subject(c wire.Channel) string { return subjects(p).Worker(p.id, c) }

var serial uint64

// message returns an unsigned message of the worker with a payload.
func (p *played) message(body wire.Payload) []byte {
	serial++
	data, err := wire.Encode(wire.Sender{Role: wire.RoleWorker, ID: p.id}, serial, time.Now(), body)
	if err != nil {
		panic(err)
	}
	return data
}

// envelope returns an unsigned message of the worker with any JSON as payload, even an invalid one.
func (p *played) envelope(kind, payload string) []byte {
	return []byte(fmt.Sprintf(
		`{"schema_version":%q,"message_type":%q,"sent_at":%q,"sender":{"role":"worker","id":%q},"seq":1,"payload":%s}`,
		wire.SchemaVersion, kind, time.Now().UTC().Format(time.RFC3339), p.id, payload))
}

// line is a connection to the bus without a NATS client.
type line struct {
	net.Conn
	r     *bufio.Reader
	nonce string
}

// call opens a connection to the bus, without reading the server's INFO.
func (p *played) call() (*line, error) {
	u, err := url.Parse(p.Plan.Bus.URL)
	if err != nil {
		return nil, err
	}
	c, err := elsewhere.Dial("tcp", u.Host)
	if err != nil {
		return nil, err
	}
	return &line{Conn: c, r: bufio.NewReader(c)}, nil
}

// info reads the server's INFO and stores its nonce.
func (l *line) info() error {
	_ = l.SetReadDeadline(time.Now().Add(5 * time.Second))
	text, err := l.r.ReadString('\n')
	if err != nil {
		return err
	}
	text, ok := strings.CutPrefix(text, "INFO ")
	var info struct{ Nonce string }
	if !ok || json.Unmarshal([]byte(text), &info) != nil {
		return fmt.Errorf("no INFO: %.80q", text)
	}
	l.nonce = info.Nonce
	return nil
}

// signIn opens a connection and signs in with the worker's credential.
func (p *played) signIn() (*line, error) {
	l, err := p.call()
	if err != nil {
		return nil, err
	}
	if err := l.info(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	_, err = l.Write([]byte(connectLine(p.Plan, l.nonce) + "PING\r\n"))
	if err == nil {
		err = l.want("PONG")
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// want reads lines until one begins with a text. It returns an error if the server sends -ERR before.
func (l *line) want(begins string) error {
	_ = l.SetReadDeadline(time.Now().Add(5 * time.Second))
	for {
		text, err := l.r.ReadString('\n')
		if err != nil {
			return err
		}
		if strings.HasPrefix(text, "-ERR") {
			return errors.New(strings.TrimSpace(text))
		}
		if strings.HasPrefix(text, begins) {
			return nil
		}
	}
}

// cutOff reports whether the server closes the connection within a time.
func (l *line) cutOff(most time.Duration) bool {
	_ = l.SetReadDeadline(time.Now().Add(most))
	for {
		if _, err := l.r.ReadString('\n'); err != nil {
			var late net.Error
			return !errors.As(err, &late) || !late.Timeout()
		}
	}
}

// ask sends a request and returns the reply, or an error after three seconds.
func (t *thief) ask(subject string, data []byte) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	return t.RequestWithContext(ctx, subject, data)
}
