// Package bustest runs a NATS server to join in the process of a test, with keys and configuration as `director
// bus init` makes them.
package bustest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"

	"retake/internal/bus/keys"
	"retake/internal/bus/wire"
)

// Server is a server that directors join.
type Server struct {
	URL  string
	Keys string // the folder that `director bus init` makes

	t      testing.TB
	nats   *natsd.Server
	config string
}

// New starts a server that ends with the test. Its files are below dir.
func New(t testing.TB, dir string) *Server {
	t.Helper()
	port, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t, URL: fmt.Sprintf("tls://127.0.0.1:%d", port), Keys: filepath.Join(dir, "keys")}
	made := keys.Init{
		Hosts: []string{"127.0.0.1"}, Port: port, Store: filepath.Join(dir, "store"),
		Prefix: wire.DefaultPrefix,
	}
	if err := made.Make(s.Keys); err != nil {
		t.Fatal(err)
	}
	s.config = filepath.Join(s.Keys, keys.DirServer, keys.FileConfig)
	s.Start()
	t.Cleanup(s.Stop)
	return s
}

// Credentials is the value of agent_bus.credentials for a director.
func (s *Server) Credentials() string { return filepath.Join(s.Keys, keys.DirDirector) }

// Start runs it again after Stop, on the same port and files.
func (s *Server) Start() {
	s.t.Helper()
	var o natsd.Options
	err := o.ProcessConfigFile(s.config)
	if err == nil {
		o.NoLog, o.NoSigs = true, true
		s.nats, err = natsd.NewServer(&o)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.nats.Start()
	if !s.nats.ReadyForConnections(time.Minute) {
		s.t.Fatal("the server to join does not start")
	}
}

// Stop ends it; its files stay.
func (s *Server) Stop() {
	s.nats.Shutdown()
	s.nats.WaitForShutdown()
}

// FreePort is one that nobody gets by chance while the server is away: below those that Linux gives to outgoing
// connections, and below those that directors choose from.
func FreePort() (int, error) {
	var failed error
	for range 20 {
		port := 10000 + rand.N(10000)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
		failed = err
	}
	return 0, failed
}
