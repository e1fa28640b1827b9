// Package bustest runs a NATS server inside the test process, for directors to join. The server uses the keys and the
// configuration written by `director bus init`.
package bustest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"

	"retake/internal/bus/keys"
	"retake/internal/bus/wire"
)

// Server is a NATS server for one test.
type Server struct {
	URL  string
	Keys string // directory of the keys, laid out as by `director bus init`

	Options natsd.Options // options of the running server

	t      testing.TB
	nats   *natsd.Server
	config string
}

// New starts a server with its files below dir, and stops it when the test ends.
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

// Credentials returns the value of agent_bus.credentials for a director.
func (s *Server) Credentials() string { return filepath.Join(s.Keys, keys.DirDirector) }

// Start restarts the server after Stop, with the same port and files.
func (s *Server) Start() {
	s.t.Helper()
	s.Options = natsd.Options{}
	err := s.Options.ProcessConfigFile(s.config)
	if err == nil {
		s.Options.NoLog, s.Options.NoSigs = true, true
		s.nats, err = natsd.NewServer(&s.Options)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.nats.Start()
	if !s.nats.ReadyForConnections(time.Minute) {
		s.t.Fatal("the NATS server did not start")
	}
}

// Wipe removes all streams, buckets and pushed accounts from the server.
func (s *Server) Wipe() {
	s.t.Helper()
	s.Stop()
	if err := os.RemoveAll(s.Options.StoreDir); err != nil {
		s.t.Fatal(err)
	}
	s.Start()
}

// Director returns the keys with which a director joins.
func (s *Server) Director() *keys.Director {
	s.t.Helper()
	k, err := keys.Load(s.Credentials())
	if err != nil {
		s.t.Fatal(err)
	}
	return k
}

// Stop stops the server and keeps its files.
func (s *Server) Stop() {
	s.nats.Shutdown()
	s.nats.WaitForShutdown()
}

// FreePort returns a free port from 10000 to 19999. Outgoing connections and embedded servers use higher ports, so they
// do not take the port while the server is down.
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
