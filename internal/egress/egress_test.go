package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a proxy with a fake internet. The proxy resolves names to the addresses in names, but all connections go to
// one local server.
type world struct {
	*Proxy
	at     string
	names  map[string]string
	dialed chan netip.AddrPort
}

func newWorld(t *testing.T, o Options, behind net.Listener) *world {
	t.Helper()
	w := &world{dialed: make(chan netip.AddrPort, 100), names: map[string]string{
		"api.example.com": "203.1.113.5", "files.example.org": "203.1.113.6", "a.files.example.org": "203.1.113.7",
		"inside.example.com": "10.0.0.5",
		"meta.example.com":   "169.254.169.254", "here.example.com": "127.0.0.1", "six.example.com": "fd00::5",
		"other.example.net": "203.1.113.9",
	}}
	o.Secret = []byte("a secret of thirty-two bytes, or more")
	o.Lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
		if a, ok := w.names[host]; ok {
			return []netip.Addr{netip.MustParseAddr(a)}, nil
		}
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	o.Dial = func(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error) {
		w.dialed <- to
		return (&net.Dialer{}).DialContext(ctx, network, behind.Addr().String())
	}
	w.Proxy = New(o)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.Serve(l)
	w.at = l.Addr().String()
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// client returns an HTTP client with an attempt's credentials.
func (w *world) client(t *testing.T, attempt, token string, roots *x509.CertPool) *http.Client {
	at := &url.URL{Scheme: "http", Host: w.at, User: url.UserPassword(attempt, token)}
	tr := &http.Transport{Proxy: http.ProxyURL(at), TLSClientConfig: &tls.Config{
		RootCAs:    roots,
		ServerName: "example.com",
	}, DisableKeepAlives: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 10 * time.Second}
}

func get(c *http.Client, url string) (code int, body string, err error) {
	answer, err := c.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, strings.TrimSpace(string(text)), err
}

// TestHosts checks that the proxy forwards requests only to listed hosts and doors, and records a limited number of
// denied hosts.
func TestHosts(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "at ", r.Host, r.URL.Path, " ", r.Header.Get("Proxy-Authorization"))
	}))
	defer web.Close()
	w := newWorld(t, Options{
		Hosts: []string{
			"api.example.com", "*.example.org", "here.example.com", "inside.example.com",
			"meta.example.com", "six.example.com", "other.example.net:8080",
		},
		Doors: []netip.AddrPort{netip.MustParseAddrPort("10.0.0.5:443"), netip.MustParseAddrPort("10.0.0.6:80")},
	}, web.Listener)
	w.Admit("attempt-1")
	c := w.client(t, "attempt-1", w.Token("attempt-1"), nil)
	for _, x := range []struct{ url, want string }{
		{"http://api.example.com/x", "at api.example.com/x"},
		{"http://API.example.com./x", "at API.example.com./x"},
		{"http://files.example.org/", "at files.example.org/"},
		{"http://a.files.example.org/", "at a.files.example.org/"},
		{"http://other.example.net:8080/", "at other.example.net:8080/"},
		{"http://10.0.0.6/", "at 10.0.0.6/"}, // a door
		{"http://example.org/", "retake: egress denied: example.org: " + notListed},
		{"http://other.example.net/", "retake: egress denied: other.example.net: " + notListed},
		{"http://api.example.com:22/", "retake: egress denied: api.example.com:22: " + notListed},
		{"http://evilapi.example.com/", "retake: egress denied: evilapi.example.com: " + notListed},
		// The address of a door, but not its port.
		{"http://inside.example.com/", "retake: egress denied: inside.example.com: " + notPublic},
		{"http://meta.example.com/", "retake: egress denied: meta.example.com: " + notPublic},
		{"http://here.example.com/", "retake: egress denied: here.example.com: " + notPublic},
		{"http://six.example.com/", "retake: egress denied: six.example.com: " + notPublic},
		{"http://203.1.113.5/", "retake: egress denied: 203.1.113.5:80: " + notListed},
		{"http://[::ffff:10.0.0.5]/", "retake: egress denied: [::ffff:10.0.0.5]:80: " + notListed},
		{"http://169.254.169.254/", "retake: egress denied: 169.254.169.254:80: " + notListed},
		{"http://0x7f000001/", "retake: egress denied: 0x7f000001: " + notListed},
	} {
		_, got, err := get(c, x.url)
		if got != x.want || err != nil {
			t.Errorf("%s: %q, %v, want %q", x.url, got, err, x.want)
		}
	}
	if d := w.Denied("attempt-1"); len(d) != 12 || d[0] != "example.org" {
		t.Errorf("denied: %q", d)
	}
	for n := range 100 {
		_, _, _ = get(c, fmt.Sprintf("http://h%d.example.net/", n))
	}
	if d := w.Denied("attempt-1"); len(d) != mostDenied {
		t.Errorf("%d hosts are remembered, want %d", len(d), mostDenied)
	}
}

// TestTunnel checks that the proxy opens tunnels to listed hosts with public addresses, and refuses all others.
func TestTunnel(t *testing.T) {
	web := httptest.NewTLSServer(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "tls ", r.Host) }))
	defer web.Close()
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	w := newWorld(t, Options{Hosts: []string{"api.example.com", "inside.example.com"}}, web.Listener)
	w.Admit("attempt-1")
	c := w.client(t, "attempt-1", w.Token("attempt-1"), roots)
	if _, got, err := get(c, "https://api.example.com/"); got != "tls api.example.com" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if to := <-w.dialed; to.String() != "203.1.113.5:443" {
		t.Errorf("dialled %s", to)
	}
	for _, denied := range []string{
		"https://inside.example.com/", "https://other.example.net/", "https://10.0.0.5/",
		"https://[::1]/",
	} {
		if _, got, err := get(c, denied); err == nil || !strings.Contains(err.Error(), "Forbidden") {
			t.Errorf("%s: %q, %v", denied, got, err)
		}
	}
	if len(w.dialed) != 0 {
		t.Errorf("dialled %s", <-w.dialed)
	}
}

// TestRebinding checks that the proxy dials the address that it checked, without resolving the name a second time.
func TestRebinding(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer web.Close()
	w := newWorld(t, Options{Hosts: []string{"api.example.com"}}, web.Listener)
	asked := 0
	w.o.Lookup = func(context.Context, string) ([]netip.Addr, error) {
		if asked++; asked == 1 {
			return []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("203.1.113.5")}, nil
		}
		return []netip.Addr{netip.MustParseAddr("169.254.169.254")}, nil
	}
	w.Admit("attempt-1")
	c := w.client(t, "attempt-1", w.Token("attempt-1"), nil)
	if code, _, err := get(c, "http://api.example.com/"); code != 200 || err != nil || asked != 1 {
		t.Errorf("%d, %v, looked up %d times", code, err, asked)
	}
	if to := <-w.dialed; to.String() != "203.1.113.5:80" {
		t.Errorf("dialled %s", to)
	}
	if code, _, err := get(c, "http://api.example.com/"); code != 403 || err != nil {
		t.Errorf("%d, %v", code, err)
	}
}

// TestTokens checks that the proxy refuses clients without the token of a running attempt.
func TestTokens(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer web.Close()
	w := newWorld(t, Options{Hosts: []string{"api.example.com"}}, web.Listener)
	w.Admit("attempt-1")
	w.Admit("attempt-2")
	w.Dismiss("attempt-2")
	for _, x := range []struct {
		attempt, token string
		want           int
	}{
		{"attempt-1", w.Token("attempt-1"), 200},
		{"attempt-1", w.Token("attempt-2"), 407},
		{"attempt-1", "", 407},
		{"attempt-2", w.Token("attempt-2"), 407},
		{"attempt-3", w.Token("attempt-3"), 407},
		{"", "", 407},
	} {
		if code, _, err := get(w.client(t, x.attempt, x.token, nil), "http://api.example.com/"); code != x.want ||
			err != nil {
			t.Errorf("%q with %q: %d, %v, want %d", x.attempt, x.token, code, err, x.want)
		}
	}
}

// acceptsAll accepts every connection on loopback and never writes.
func acceptsAll(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
		}
	}()
	return l
}

// openTunnel asks the proxy for a tunnel as attempt-1, and returns the connection and the status of the answer.
func openTunnel(t *testing.T, w *world) (net.Conn, string) {
	t.Helper()
	c, err := net.Dial("tcp", w.at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	r, err := http.NewRequest(http.MethodConnect, "http://api.example.com:443", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "api.example.com:443"
	r.SetBasicAuth("attempt-1", w.Token("attempt-1"))
	r.Header.Set("Proxy-Authorization", r.Header.Get("Authorization"))
	if err := errors.Join(c.SetDeadline(time.Now().Add(10*time.Second)), r.Write(c)); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	return c, answer.Status
}

// TestDismiss checks that the proxy limits the number of an attempt's connections, and that Dismiss closes them.
func TestDismiss(t *testing.T) {
	l := acceptsAll(t)
	w := newWorld(t, Options{Hosts: []string{"api.example.com"}}, l)
	w.Admit("attempt-1")
	var all []net.Conn
	for range mostOfGuest {
		c, status := openTunnel(t, w)
		if status != "200 OK" {
			t.Fatal(status)
		}
		all = append(all, c)
	}
	if _, status := openTunnel(t, w); status != "429 Too Many Requests" {
		t.Errorf("one more: %s", status)
	}
	w.Dismiss("attempt-1")
	for _, c := range all {
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a tunnel is open: %v", err)
		}
	}
	if _, status := openTunnel(t, w); status != "407 Proxy Authentication Required" {
		t.Error(status)
	}
}
