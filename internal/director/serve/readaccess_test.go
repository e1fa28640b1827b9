package serve

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"retake/internal/director/operator"
)

// TestWhoMayRead checks that page and metrics are open without a token only if none is configured, and only to local
// requests by a local name at a local address.
func TestWhoMayRead(t *testing.T) {
	token := func(value string, err error) func() (string, error) {
		return func() (string, error) { return value, err }
	}
	unset, unreadable := token("", nil), token("", errors.New("unreadable"))
	forPage, forMetrics, auth := token("p", nil), token("m", nil), "Authorization"
	const local, anywhere = "127.0.0.1:8730", "0.0.0.0:8730"
	for _, c := range []struct {
		name                  string
		address, host         string
		page, metrics         func() (string, error)
		header, value         string
		seesPage, seesMetrics bool
	}{
		{"no token", local, "localhost:8730", unset, unset, "", "", true, true},
		{"no token, IPv6", local, "[::1]:8730", unset, unset, "", "", true, true},
		{"another name", local, "evil.example", unset, unset, "", "", false, false},
		{"a proxy", local, "127.0.0.1", unset, unset, "X-Forwarded-For", "1.2.3.4", false, false},
		{"another address", anywhere, "127.0.0.1", unset, unset, "", "", false, false},
		{"page token", local, "localhost", forPage, unset, "", "", false, false},
		{"page token unreadable", local, "localhost", unreadable, unset, "", "", false, false},
		{"metrics token", local, "localhost", unset, forMetrics, "", "", true, false},
		{"metrics token unreadable", local, "localhost", unset, unreadable, auth, "Bearer ", true, false},
		{"scrape", anywhere, "retake.example", forPage, forMetrics, auth, "Bearer m", false, true},
		{"scrape, lower case", local, "localhost", forPage, forMetrics, auth, "bearer m", false, true},
		{"page token for metrics", local, "localhost", forPage, forMetrics, auth, "Bearer p", false, false},
		{"no metrics token, empty bearer", local, "localhost", forPage, unset, auth, "Bearer ", false, false},
		{"password", local, "localhost", forPage, forMetrics, auth, "Basic m", false, false},
	} {
		d := ReadAccess{Address: c.address, Page: c.page, Metrics: c.metrics}
		r := httptest.NewRequest(http.MethodGet, "http://"+c.host+"/metrics", http.NoBody)
		if c.header != "" {
			r.Header.Set(c.header, c.value)
		}
		w := httptest.NewRecorder()
		d.ForMetrics(func(http.ResponseWriter, *http.Request) {})(w, r)
		if d.Open(r) != c.seesPage || (w.Code == http.StatusOK) != c.seesMetrics {
			t.Errorf("%s: page %v, metrics %d", c.name, d.Open(r), w.Code)
		}
	}
}

// TestTheSocketIsPrivate checks the socket's permissions under the widest umask. The new socket replaces an old one.
func TestTheSocketIsPrivate(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	dir := t.TempDir()
	path := filepath.Join(dir, operator.SocketName)
	if err := os.WriteFile(path, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	listener, err := Listen(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("the socket: %v, %v", info.Mode(), err)
	}
	if err := listener.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
