package workspace

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestServersThatAreAway checks the errors of a server that is down, partly down, or behind a failing proxy.
func TestServersThatAreAway(t *testing.T) {
	page := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		_,
			_ = io.WriteString(rw, "<html>We'll be back</html>")
	}))
	t.Cleanup(page.Close)
	half := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		rw.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(rw, "001e# service=git-upload-pack\n")
	}))
	t.Cleanup(half.Close)
	w := open(t, Options{})
	_, err := w.Checkout(t.Context(), Request{
		Nonce: nonceB, Repo: repo, RemoteURL: page.URL + "/x.git",
		BaseBranch: "main",
	})
	if !errors.Is(err, ErrNotThere) { // a page instead of git's answer looks like a missing repository
		t.Error(err)
	}
	for name, url := range map[string]string{
		"half":         half.URL,
		"closes":       "http://" + talks(t, ""),
		"closes, TLS":  "https://" + talks(t, ""),
		"garbage, TLS": "https://" + talks(t, "HTTP/1.1 503 Service Unavailable\r\n\r\n"),
		"alert, TLS":   "https://" + talks(t, "\x15\x03\x01\x00\x02\x02\x28"), // handshake failure
		"port closed":  "http://127.0.0.1:1",
	} {
		_, err := w.Checkout(t.Context(), Request{
			Nonce: nonceB, Repo: repo, RemoteURL: url + "/x.git",
			BaseBranch: "main",
		})
		t.Log(name, err)
		wantKind(t, err, Transient)
	}
	for _, said := range []string{
		"OpenSSL SSL_read: error:0A000126:SSL routines::unexpected eof while reading, errno 0",
		"OpenSSL SSL_connect: SSL_ERROR_SYSCALL in connection to github.com:443",
		"gnutls_handshake() failed: The TLS connection was non-properly terminated.",
		"Operation too slow. Less than 1000 bytes/sec transferred the last 60 seconds",
		"HTTP/2 stream 1 was not closed cleanly: INTERNAL_ERROR (err 2)",
		"Failed to connect to github.com port 443 after 130941 ms: Couldn't connect to server",
		"The requested URL returned error: 503",
	} {
		wantKind(t, gitFailed("fetch", "fatal: unable to access 'https://github.com/acme/widgets.git/': "+said,
			false, errors.New("exit status 128")), Transient)
	}
	for _, said := range []string{
		"fatal: protocol error: bad line length character: <htm",
		"fatal: expected flush after ref listing",
		"fetch-pack: unexpected disconnect while reading sideband packet\nfatal: early EOF\nfatal: fetch-pack: " +
			"invalid index-pack output",
		"error: RPC failed; curl 18 transfer closed with outstanding read data remaining",
		"fatal: remote error: upload-pack: not our ref 2222222222222222222222222222222222222222",
	} {
		wantKind(t, gitFailed("fetch", said, false, errors.New("exit status 128")), Transient)
	}
	certificate := "fatal: unable to access 'https://github.com/': SSL certificate problem: certificate has expired"
	wantKind(t, gitFailed("fetch", certificate, false, errors.New("exit status 128")), Permanent, "SSL_CERT_FILE")
}

// talks starts a server that sends a text to every client and closes the connection. It returns the address.
func talks(t *testing.T, text string) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if text != "" {
				_, _ = c.Read(make([]byte, 1024))
				_, _ = io.Copy(c, strings.NewReader(text))
			}
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String()
}
