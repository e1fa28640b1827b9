package container_test

import (
	"context"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"retake/internal/container"
)

// line is a connection to the daemon that tests can cut.
type line struct {
	t        testing.TB
	socket   string
	network  string // of the real daemon
	address  string
	mu       sync.Mutex
	listener net.Listener
	conns    map[net.Conn]struct{}
	wg       sync.WaitGroup
}

// openThroughLine opens a Docker that reaches the daemon only over the line.
func openThroughLine(t *testing.T) (*container.Docker, *line) {
	t.Helper()
	u, err := url.Parse(engine.api.DaemonHost())
	if err != nil {
		t.Fatal(err)
	}
	l := &line{
		t: t, socket: filepath.Join(t.TempDir(), "line.sock"), network: u.Scheme, address: u.Path,
		conns: map[net.Conn]struct{}{},
	}
	if u.Scheme != "unix" {
		l.address = u.Host
	}
	l.mend()
	t.Cleanup(l.cut)
	t.Setenv("DOCKER_HOST", "unix://"+l.socket)
	d := open(t, engine.fleet)
	t.Setenv("DOCKER_HOST", engine.api.DaemonHost())
	return d, l
}

func (l *line) mend() {
	listener, err := net.Listen("unix", l.socket)
	if err != nil {
		l.t.Fatal(err)
	}
	l.mu.Lock()
	l.listener = listener
	l.mu.Unlock()
	l.wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			l.wg.Go(func() { l.carry(conn) })
		}
	})
}

func (l *line) carry(conn net.Conn) {
	daemon, err := net.Dial(l.network, l.address)
	if err != nil {
		conn.Close()
		return
	}
	l.mu.Lock()
	l.conns[conn], l.conns[daemon] = struct{}{}, struct{}{}
	l.mu.Unlock()
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = io.Copy(daemon, conn); daemon.Close() })
	wg.Go(func() { _, _ = io.Copy(conn, daemon); conn.Close() })
	wg.Wait()
}

// cut ends every connection, and refuses new ones until mend is called.
func (l *line) cut() {
	l.mu.Lock()
	l.listener.Close()
	for c := range l.conns {
		c.Close()
	}
	clear(l.conns)
	l.mu.Unlock()
	l.wg.Wait()
}

func TestWatchSurvivesAnOutage(t *testing.T) {
	needDocker(t)
	d, l := openThroughLine(t)
	other := open(t, engine.fleet)
	ctx, cancel := context.WithCancel(context.Background())
	changes := make(chan struct{}, 100)
	var wg sync.WaitGroup
	wg.Go(func() { _ = d.Watch(ctx, func() { changes <- struct{}{} }) })
	defer wg.Wait()
	defer cancel()
	await := func(what string) {
		t.Helper()
		select {
		case <-changes:
		case <-time.After(30 * time.Second):
			t.Fatalf("%s: Watch did not report it", what)
		}
	}
	await("the beginning")
	run(t, other, spec(t, "exit", "0"))
	await("a death")
	await("a removal")
	l.cut()
	run(t, other, spec(t, "exit", "0"))
	for len(changes) > 0 {
		<-changes
	}
	l.mend()
	await("the reconnection")
	await("the death during the outage, by the overlap")
	await("the removal during the outage, by the overlap")
}

func TestOutageIsTransient(t *testing.T) {
	needDocker(t)
	d, l := openThroughLine(t)
	s := spec(t, "obey")
	ensure(t, d, s)
	awaitReady(t, s)
	l.cut()
	absent := spec(t, "exit", "0")
	for name, call := range map[string]func() error{
		"Ensure":        func() error { return d.Ensure(t.Context(), absent) },
		"EnsureNetwork": func() error { _, err := d.EnsureNetwork(t.Context()); return err },
		"List":          func() error { _, err := d.List(t.Context()); return err },
		"Stop":          func() error { _, err := d.Stop(t.Context(), s.AttemptID, time.Minute, nil); return err },
		"Adopt":         func() error { return d.Adopt(t.Context(), s.AttemptID) },
	} {
		err := call()
		if !container.Transient(err) || !strings.Contains(err.Error(), "DOCKER_HOST") {
			t.Errorf("%s: got %v, want a transient error with the next step", name, err)
		}
	}
	if !exists(t, s.AttemptID) {
		t.Error("the container did not survive")
	}
	l.mend()
}

// A broken connection looks like the end of a container's output. The engine's log has the output that was printed
// during the outage.
func TestTailsSurviveAnOutage(t *testing.T) {
	needDocker(t)
	d, l := openThroughLine(t)
	s := spec(t, "obey")
	ensure(t, d, s)
	awaitReady(t, s)
	l.cut()
	l.mend()
	d.AwaitBrokenStreams(s.AttemptID)
	exit, err := d.Stop(t.Context(), s.AttemptID, 30*time.Second, nil)
	if err != nil || string(exit.Stdout) != "ready\nbye\n" {
		t.Errorf("got %+v, %v; want the output before and after", exit, err)
	}
}

func TestAdoptAfterAnOutageFollowsAgain(t *testing.T) {
	needDocker(t)
	d, l := openThroughLine(t)
	s := spec(t, "obey")
	ensure(t, d, s)
	awaitReady(t, s)
	for range 2 { // first the stream attached at the start breaks, then the one from Adopt
		l.cut()
		l.mend()
		d.AwaitBrokenStreams(s.AttemptID)
		if err := d.Adopt(t.Context(), s.AttemptID); err != nil {
			t.Fatal(err)
		}
	}
	exit, err := d.Stop(t.Context(), s.AttemptID, 30*time.Second, nil)
	if err != nil || string(exit.Stdout) != "ready\nbye\n" {
		t.Errorf("got %+v, %v; want all output once", exit, err)
	}
}
