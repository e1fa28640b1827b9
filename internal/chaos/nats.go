package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"

	"retake/internal/bus/keys"
	"retake/internal/bus/wire"
	"retake/internal/testbed"
)

// Kinds of bus, in addition to busCluster.
const (
	busEmbedded = "embedded"
	busJoined   = "joined"
)

// nats is a NATS server, or a cluster of them, for the director to join.
type nats struct {
	*testbed.Process
	keys  string // output directory of `director bus init`
	store string
	port  int
	hosts []string
	// servers of a cluster; nil for a single server
	servers []*testbed.Process
}

// all returns all servers.
func (n *nats) all() []*testbed.Process {
	if n.servers != nil {
		return n.servers
	}
	return []*testbed.Process{n.Process}
}

// startNATS starts a server with keys and a configuration from `director bus init`.
func startNATS(ctx context.Context, w *world, self string) (*nats, error) {
	dir := filepath.Join(w.disk.dir, "nats")
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	n := &nats{
		keys: filepath.Join(dir, "keys"), store: filepath.Join(dir, "store"), port: port,
		hosts: []string{"127.0.0.1"},
	}
	if gateway, err := w.host.Gateway(ctx); err != nil {
		return nil, err
	} else if gateway != n.hosts[0] {
		n.hosts = append(n.hosts, gateway)
	}
	made := keys.Init{Hosts: n.hosts, Port: port, Store: n.store, Prefix: wire.DefaultPrefix}
	if err := errors.Join(os.MkdirAll(dir, 0o700), made.Make(n.keys)); err != nil {
		return nil, err
	}
	n.Process = &testbed.Process{
		Name: "NATS", Argv: []string{self, "nats", filepath.Join(n.keys, keys.DirServer, keys.FileConfig)},
		Env: os.Environ(), Log: filepath.Join(w.dir, "nats.log"),
	}
	if err := n.Start(); err != nil {
		return nil, err
	}
	return n, testbed.Await(ctx, 20*time.Second, "NATS listens", n.listens)
}

// listens reports whether the server accepts connections. A director exits if it cannot connect when it starts.
func (n *nats) listens() bool {
	c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(n.port)))
	return err == nil && c.Close() == nil
}

// settings returns the contents of the [agent_bus] section. Containers reach the server through their gateway.
func (n *nats) settings() string {
	if n.servers != nil {
		return fmt.Sprintf("url = %q\nreplicas = %d\ncredentials = %q\n", n.urls(), len(n.hosts),
			filepath.Join(n.keys, keys.DirDirector))
	}
	host := n.hosts[len(n.hosts)-1]
	return fmt.Sprintf("url = \"tls://%s\"\ncredentials = %q\n", net.JoinHostPort(host, fmt.Sprint(n.port)),
		filepath.Join(n.keys, keys.DirDirector))
}

// urls returns the addresses of all servers, separated by commas.
func (n *nats) urls() string {
	var urls []string
	for _, host := range n.hosts {
		urls = append(urls, "tls://"+net.JoinHostPort(host, strconv.Itoa(n.port)))
	}
	return strings.Join(urls, ",")
}

// freePort returns a port that stays free while the server is down. It is below the port ranges used by Linux for
// outgoing connections and by directors.
func freePort() (int, error) {
	var failed error
	for range 20 {
		port := 10000 + rand.N(10000)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
		failed = err
	}
	return 0, fmt.Errorf("chaos: %w", failed)
}

// RunNATS implements `chaos nats CONFIG` and returns the exit code.
func RunNATS(args []string) int {
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "usage: chaos nats CONFIG (only chaos runs this)")
		return 2
	}
	if err := runNATS(args[0]); err != nil {
		fmt.Fprintln(os.Stderr, "chaos nats:", err)
		return 1
	}
	return 0
}

func runNATS(file string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var o natsd.Options
	if err := o.ProcessConfigFile(file); err != nil {
		return err
	}
	o.NoSigs = true
	s, err := natsd.NewServer(&o)
	if err != nil {
		return err
	}
	s.ConfigureLogger()
	s.Start()
	if !s.ReadyForConnections(time.Minute) {
		return errors.New("the server was not ready for connections within a minute")
	}
	<-ctx.Done()
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}
