package server

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func occupy(t *testing.T, port int) int {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().(*net.TCPAddr).Port
}

// freePort returns a port that a server has chosen and released.
func freePort(t *testing.T) int {
	t.Helper()
	s := start(t, loopback(t))
	stop(t, s)
	return s.port
}

func TestEveryHostIsListenedOnAndNoOther(t *testing.T) {
	s := start(t, Options{Dir: t.TempDir(), ListenHosts: []string{"127.0.0.1", "127.0.0.2"}})
	for host, want := range map[string]bool{"127.0.0.1": true, "127.0.0.2": true, "127.0.0.3": false} {
		if _, err := signIn(t, s, host); (err == nil) != want {
			t.Errorf("%s: %v", host, err)
		}
	}
}

func TestPortIsKept(t *testing.T) {
	t.Parallel()
	o, want := loopback(t), freePort(t)
	o.Port = want
	b := start(t, o)
	if b.port != want {
		t.Errorf("port %d, want the configured %d", b.port, want)
	}
	stop(t, b)

	taken := occupy(t, want)
	_, err := Start(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), strconv.Itoa(taken)) ||
		!strings.Contains(err.Error(), filepath.Join(o.Dir, filePort)) {
		t.Errorf("a taken port that workers know: %v", err)
	}
}

func TestTakenPortAtTheFirstStartIsReplaced(t *testing.T) {
	o := Options{Dir: t.TempDir(), ListenHosts: []string{"127.0.0.1", "127.0.0.2"}, Port: occupy(t, 0)}
	b := start(t, o)
	chosen := b.port
	if chosen == o.Port {
		t.Fatalf("port %d is taken", chosen)
	}
	stop(t, b)
	if b = start(t, o); b.port != chosen {
		t.Errorf("port %d, then %d", chosen, b.port)
	}
	stop(t, b)
	o.Port = freePort(t) // a changed configuration leads to a new choice
	if b = start(t, o); b.port != o.Port {
		t.Errorf("port %d, want the newly configured %d", b.port, o.Port)
	}
}

func TestUnreadablePortFile(t *testing.T) {
	o := Options{Dir: t.TempDir(), ListenHosts: []string{"127.0.0.1"}}
	for _, content := range []string{"", "{}", `{"port":70000}`, "garbage"} {
		if err := os.WriteFile(filepath.Join(o.Dir, filePort), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		stop(t, start(t, o))
		aside, err := filepath.Glob(filepath.Join(o.Dir, filePort+".damaged-*"))
		if err != nil || len(aside) != 1 {
			t.Errorf("%q: set aside: %q, %v", content, aside, err)
			continue
		}
		if kept, err := os.ReadFile(aside[0]); err != nil || string(kept) != content {
			t.Errorf("%q: kept %q, %v", content, kept, err)
		}
		_ = os.Remove(aside[0])
	}
}

func TestStartSaysWhatToDo(t *testing.T) {
	cases := map[string]struct {
		o    Options
		want string
	}{
		"no folder":   {Options{}, "needs a directory"},
		"bad prefix":  {Options{Dir: t.TempDir(), Prefix: "a.*"}, "subject prefix"},
		"bad port":    {Options{Dir: t.TempDir(), Port: 70000}, "port 70000"},
		"bad address": {Options{Dir: t.TempDir(), ListenHosts: []string{"192.0.2.1"}}, "listen"},
	}
	for name, c := range cases {
		if _, err := Start(t.Context(), c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
