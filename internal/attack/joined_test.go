package attack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"

	"retake/internal/bus"
	"retake/internal/bus/bustest"
	"retake/internal/bus/keys"
	"retake/internal/bus/wire"
	"retake/internal/checkpoint"
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

// bombs are manifests of half a megabyte: a page, and the number of times that the root names it.
var bombs = map[string]string{
	"continues a file must have parts": `{"entries":[` + strings.Repeat(`{"path":"Zg==","kind":"more"},`, 8700) +
		`{"path":"Zg==","kind":"more"}]}`,
	"chunks that no file uses": `{"chunks":["` + strings.Repeat(anyChunk+`","`, 5600) + anyChunk +
		`"],"entries":[{"path":"Zg==","kind":"more"}]}`,
	"spaces": `{"entries":[` + strings.Repeat(" ", 260_000) + `{"path":"Zg==","kind":"more"}]}`,
}

// timesNamed is the number of times that a root of at most one chunk can name a page.
const timesNamed = 5300

var anyChunk = checkpoint.DigestOf([]byte("any")).String()

var travelAttacks = []attack{{
	name: "manifests of half a megabyte", kind: onCheckout,
	does: "sends checkpoints whose root names a useless page 5,300 times, with entries without parts, " +
		"unused chunks or spaces",
	holds:  "each is refused within 5 s; the neighbour's checkpoint counts",
	before: "succeeded: no answer, a core was busy for minutes",
	run:    sendBombs,
}, {
	name: "hostile checkouts and chunks", kind: onCheckout,
	does: "sends 17 checkouts with impossible paths, links, modes and sizes, and empty and long chunks, and asks for " +
		"chunks of a neighbour",
	holds: "each is refused; valid checkpoints of both still count", before: "held",
	run: sendTrees,
}, {
	name: "checkpoints for another attempt", kind: onCheckout,
	does:  "sends checkpoints for the neighbour's attempt, for none, and without a valid manifest",
	holds: "none is saved; the neighbour's counts", before: "held",
	run: claimToBe,
}}

// TestTravels runs attacks on checkouts that travel over the bus.
func TestTravels(t *testing.T) {
	if !*all {
		t.Skip("make attacks runs the attacks on checkouts that travel")
	}
	var w *world
	for _, a := range travelAttacks {
		if !chosen(a) {
			continue
		}
		if w == nil {
			w = newWorld(t, worldOptions{sections: "[workspace]\ntransport = \"sync\"\n"})
			defer w.leave()
		}
		judge(t, a, func(a attack) ([]string, error) {
			p, err := w.next()
			if err != nil {
				return nil, err
			}
			b := &battle{world: w, me: p.me, neighbour: p.neighbour}
			err = a.run(b)
			return b.seen, errors.Join(err, b.served(time.Now()))
		})
	}
}

func sendBombs(b *battle) (err error) {
	for what, page := range bombs {
		root, sent := b.me.bomb(page)
		if sent != nil {
			return errors.Join(err, fmt.Errorf("%s: chunks not sent: %w", what, sent))
		}
		began := time.Now()
		refused, ok := errors.AsType[*bus.RefusedError](b.me.save(root))
		if !ok || refused.Why != wire.RefusedMalformed {
			err = errors.Join(err, fmt.Errorf("%s: not refused after %s", what, time.Since(began)))
		}
		if saved := b.neighbour.save(b.neighbour.Plan.Checkout.Manifest); saved != nil {
			err = errors.Join(err, fmt.Errorf("the neighbour's checkpoint: %w", saved))
		}
		b.note("%s: %.1f s", what, time.Since(began).Seconds())
	}
	return err
}

// bomb sends the chunks of a manifest that names a page many times, and returns the manifest.
func (p *played) bomb(page string) (root string, err error) {
	put := func(data string) (name string) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err = errors.Join(err, p.client.PutChunk(ctx, []byte(data)))
		return checkpoint.DigestOf([]byte(data)).String()
	}
	first := put(`{"entries":[{"path":"Zg==","kind":"file"}]}`)
	again := put(page)
	return put(`{"version":1,"pages":["` + first + strings.Repeat(`","`+again, timesNamed) + `"]}`), err
}

// save sends a checkpoint, and waits five seconds for the answer.
func (p *played) save(root string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	missing, err := p.client.SaveCheckpoint(ctx, wire.Checkpoint{AttemptID: p.id, Manifest: root})
	if len(missing) > 0 {
		err = fmt.Errorf("%d chunks are missing", len(missing))
	}
	return err
}
