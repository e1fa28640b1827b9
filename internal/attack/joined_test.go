package attack

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"

	"retake/internal/bus/bustest"
	"retake/internal/bus/keys"
	"retake/internal/bus/wire"
)

// onJoined are the rows that also run against a joined server. Before the bus had keys, such attacks needed no
// credential, and most succeeded.
var onJoined = map[string]bool{
	"publish on foreign subjects": true, "listen to foreign subjects": true,
	"the credential after the attempt's end": true,
	"bodies that name another worker":        true, "headers that steer a stream": true,
	"a self-made credential": true,
	"malformed messages":     true,
	"a self-made success":    true, "a success while the real worker fails": true,
	"a success for a neighbour": true, "a result after the end": true,
}

// TestJoined runs attacks against a director that has joined a NATS server, with the keys and configuration that
// `director bus init` writes.
func TestJoined(t *testing.T) {
	if !*all {
		t.Skip("make attacks runs the attacks on a server that was joined")
	}
	w := newWorld(t, join(t))
	for _, a := range rows() {
		if !onJoined[a.name] {
			continue
		}
		a.name += " (joined)"
		if !chosen(a) {
			continue
		}
		judge(t, a, w.fight)
	}
}

// join starts a server with generated keys, and returns the options of a director that joins it.
func join(t *testing.T) worldOptions {
	dir := t.TempDir()
	port, err := bustest.FreePort()
	must(t, err)
	made := keys.Init{
		Hosts: []string{"127.0.0.1"}, Port: port, Store: filepath.Join(dir, "store"),
		Prefix: wire.DefaultPrefix,
	}
	must(t, made.Make(filepath.Join(dir, "keys")))
	var o natsd.Options
	must(t, o.ProcessConfigFile(filepath.Join(dir, "keys", keys.DirServer, keys.FileConfig)))
	o.NoLog, o.NoSigs = true, true
	s, err := natsd.NewServer(&o)
	must(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(20 * time.Second) {
		t.Fatal("the server to join did not start")
	}
	return worldOptions{
		keys: filepath.Join(dir, "keys"),
		bus: fmt.Sprintf("url = \"tls://127.0.0.1:%d\"\ncredentials = %q", port,
			filepath.Join(dir, "keys", keys.DirDirector)),
	}
}

// personFile returns the path of the operator's credential, which is in the data directory or next to the keys of a
// joined server.
func (w *world) personFile() string {
	path := filepath.Join(w.data(), "bus", keys.FilePerson)
	if _, err := os.Stat(path); err == nil || w.keys == "" {
		return path
	}
	return filepath.Join(w.keys, keys.FilePerson)
}
