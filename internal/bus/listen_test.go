package bus

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
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

func TestEveryHostIsListenedOnAndNoOther(t *testing.T) {
	b := openBus(t, Options{ListenHosts: []string{"127.0.0.1", "127.0.0.2"}})
	c := b.Authorize(worker)
	for host, want := range map[string]bool{"127.0.0.1": true, "127.0.0.2": true, "127.0.0.3": false} {
		nc, err := nats.Connect(b.WorkerURL(host), nats.UserInfo(c.User, c.Password))
		if (err == nil) != want {
			t.Errorf("%s: %v", host, err)
		}
		if err == nil {
			nc.Close()
		}
	}
}

func TestPortIsKept(t *testing.T) {
	want := freePort(t)
	o := Options{StoreDir: t.TempDir(), ListenHosts: []string{"127.0.0.1"}, Port: want}
	b := openBus(t, o)
	if b.server.port != want {
		t.Errorf("port %d, want the configured %d", b.server.port, want)
	}
	closeBus(t, b)

	taken := occupy(t, want)
	_, err := Open(ctxFor(t), o)
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), strconv.Itoa(taken)) || !strings.Contains(err.Error(), filepath.Join(o.StoreDir, filePort)) {
		t.Errorf("a taken port that workers know: %v", err)
	}
}

func TestTakenPortAtTheFirstStartIsReplaced(t *testing.T) {
	o := Options{StoreDir: t.TempDir(), ListenHosts: []string{"127.0.0.1", "127.0.0.2"}, Port: occupy(t, 0)}
	b := openBus(t, o)
	chosen := b.server.port
	if chosen == o.Port {
		t.Fatalf("port %d is taken", chosen)
	}
	closeBus(t, b)
	if b = openBus(t, o); b.server.port != chosen {
		t.Errorf("port %d, then %d", chosen, b.server.port)
	}
	closeBus(t, b)
	o.Port = freePort(t) // a changed configuration chooses anew
	if b = openBus(t, o); b.server.port != o.Port {
		t.Errorf("port %d, want the newly configured %d", b.server.port, o.Port)
	}
}

func TestUnreadablePortFile(t *testing.T) {
	o := Options{StoreDir: t.TempDir(), ListenHosts: []string{"127.0.0.1"}}
	for _, content := range []string{"", "{}", `{"port":70000}`, "garbage"} {
		if err := os.WriteFile(filepath.Join(o.StoreDir, filePort), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(ctxFor(t), o); err == nil || !strings.Contains(err.Error(), "remove it") {
			t.Errorf("%q: %v", content, err)
		}
	}
}

func TestSecondDirectorOnOneFolder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		openBus(t, Options{StoreDir: dir})
		if _, err := Open(ctxFor(t), Options{StoreDir: dir}); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "another director") {
			t.Errorf("%v", err)
		}
	})
}

// A git that was just being started when the last director ended still has its lock, for the blink of an eye.
func TestALockThatIsLetGoOfSoonIsWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		copied, err := lockFolder(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(copiesLast/2, func() { _ = copied.Close() })
		openBus(t, Options{StoreDir: dir})
	})
}

func TestOpenSaysWhatToDo(t *testing.T) {
	cases := map[string]struct {
		o    Options
		want string
	}{
		"no server":   {Options{URL: "nats://user:hidden@127.0.0.1:1"}, "leave agent_bus.url empty"},
		"no folder":   {Options{}, "needs a folder"},
		"bad prefix":  {Options{StoreDir: t.TempDir(), Prefix: "a.*"}, "subject prefix"},
		"bad fleet":   {Options{StoreDir: t.TempDir(), Fleet: "a b"}, "fleet"},
		"bad port":    {Options{StoreDir: t.TempDir(), Port: 70000}, "port 70000"},
		"bad address": {Options{StoreDir: t.TempDir(), ListenHosts: []string{"192.0.2.1"}}, "listen"},
	}
	for name, c := range cases {
		_, err := Open(ctxFor(t), c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
