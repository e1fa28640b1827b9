package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a proxy, and an internet of names that all lead to one server here, whatever their addresses.
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

// client is a worker's, which signs in as an attempt.
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

// TestHosts: what is listed is reached, by the address that was looked at, and nothing else.
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
		// a door at another port
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

// TestTunnel: TLS passes through a tunnel to what is listed; nobody else's name opens one.
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

// TestRebinding: a name that means another address the second time is dialled at the one that was looked at.
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

// TestTokens: nobody is served without the token of an attempt that is under way.
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

// TestDismiss: what an attempt has open ends with it, and it has no more open than allowed.
func TestDismiss(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
		}
	}()
	w := newWorld(t, Options{Hosts: []string{"api.example.com"}}, l)
	w.Admit("attempt-1")
	open := func() (net.Conn, string) {
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
	var all []net.Conn
	for range mostOfGuest {
		c, status := open()
		if status != "200 OK" {
			t.Fatal(status)
		}
		all = append(all, c)
	}
	if _, status := open(); status != "429 Too Many Requests" {
		t.Errorf("one more: %s", status)
	}
	w.Dismiss("attempt-1")
	for _, c := range all {
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a tunnel is open: %v", err)
		}
	}
	if _, status := open(); status != "407 Proxy Authentication Required" {
		t.Error(status)
	}
}

// TestKeys: a provider gets the key, from nobody but an attempt under way, which never sees it.
func TestKeys(t *testing.T) {
	const secret = "sk-ant-the-real-one"
	said := make(chan http.Header, 10)
	release := make(chan struct{})
	web := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := r.Header.Clone()
		h.Set("X-Host", r.Host)
		h.Set("X-Url", r.URL.String())
		said <- h
		if r.URL.Path == "/v1/stream" {
			fmt.Fprint(w, "data: one\n\n")
			w.(http.Flusher).Flush()
			<-release
		}
		fmt.Fprint(w, "done")
	}))
	defer web.Close()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})) {
		t.Fatal("no certificate")
	}
	w := newWorld(t, Options{
		Keys: map[string]Key{
			"ANTHROPIC_API_KEY": {Host: "api.example.com", Value: secret},
			"INSIDE_KEY":        {Host: "inside.example.com", Value: secret},
		},
		TLS: &tls.Config{RootCAs: roots, ServerName: "example.com"},
	}, web.Listener)
	w.Admit("attempt-1")
	mine := w.Placeholder("attempt-1")
	ask := func(path string, header, value string) (*http.Response, error) {
		r, err := http.NewRequest(http.MethodPost, "http://"+w.at+path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(header, value)
		r.Header.Set("X-Other", mine)
		return (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}).Do(r)
	}
	for _, h := range []struct{ name, before string }{
		{"X-Api-Key", ""},
		{"Authorization", "Bearer "},
		{"X-Goog-Api-Key", ""},
	} {
		answer, err := ask("/ANTHROPIC_API_KEY/v1/messages?beta=true", h.name, h.before+mine)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		got := <-said
		if answer.StatusCode != 200 || got.Get(h.name) != h.before+secret || got.Get("X-Other") != mine ||
			got.Get("X-Host") != "api.example.com" || got.Get("X-Url") != "/v1/messages?beta=true" {
			t.Errorf("%s: %d, %v", h.name, answer.StatusCode, got)
		}
	}
	answer, err := ask("/ANTHROPIC_API_KEY/v1beta/models/x:generate?alt=sse&key="+mine, "X-None", "")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if got := <-said; !strings.Contains(got.Get("X-Url"), "key="+secret) ||
		!strings.HasPrefix(got.Get("X-Url"), "/v1beta/models/x:generate?") {
		t.Errorf("%v", got)
	}
	for _, x := range []struct {
		path, value string
		want        int
	}{
		{"/ANTHROPIC_API_KEY/v1/messages", "", 401},
		{"/ANTHROPIC_API_KEY/v1/messages", placeholderPrefix + "attempt-1-" + w.Token("attempt-2"), 401},
		{"/ANTHROPIC_API_KEY/v1/messages", w.Placeholder("attempt-2"), 401},
		{"/ANTHROPIC_API_KEY/v1/messages", secret, 401},
		{"/OTHER_KEY/v1/messages", mine, 404},
		{"/ANTHROPIC_API_KEY%2Fv1/messages", mine, 404},
		{"/INSIDE_KEY/v1/messages", mine, 403}, // not public
	} {
		answer, err := ask(x.path, "X-Api-Key", x.value)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != x.want || strings.Contains(string(text), secret) {
			t.Errorf("%s with %q: %d %s, want %d", x.path, x.value, answer.StatusCode, text, x.want)
		}
	}
	stream, err := ask("/ANTHROPIC_API_KEY/v1/stream", "X-Api-Key", mine)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	first := make([]byte, 64)
	n, err := stream.Body.Read(first) // before the answer is complete
	close(release)
	if rest, _ := io.ReadAll(stream.Body); string(first[:n]) != "data: one\n\n" || err != nil ||
		string(rest) != "done" {
		t.Errorf("%q, %v, then %q", first[:n], err, rest)
	}
	if !slices.Equal(w.Denied("attempt-1"), nil) {
		t.Error(w.Denied("attempt-1"))
	}
}
