package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	natsc "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"retake/internal/bus/keys"
	"retake/internal/bus/link"
	"retake/internal/bus/wire"
	"retake/internal/testbed"
)

// busCluster is a joined cluster of three NATS servers.
const busCluster = "cluster"

const clusterServers = 3

// clusterHost returns the address of a server on this machine. All servers use the same ports.
func clusterHost(n int) string { return fmt.Sprintf("127.0.0.%d", n+1) }

// startCluster starts three servers with the configuration that `director bus init` writes for a cluster.
func startCluster(ctx context.Context, w *world, self string) (*nats, error) {
	dir := filepath.Join(w.disk.dir, "nats")
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	routes, err := freePort()
	if err != nil {
		return nil, err
	}
	n := &nats{keys: filepath.Join(dir, "keys"), store: filepath.Join(dir, "store"), port: port}
	made := keys.Init{Port: port, Store: n.store, Prefix: wire.DefaultPrefix}
	for i := range clusterServers {
		n.hosts = append(n.hosts, clusterHost(i))
		made.Routes = append(made.Routes, net.JoinHostPort(clusterHost(i), strconv.Itoa(routes)))
	}
	made.Hosts = n.hosts
	if err := errors.Join(os.MkdirAll(dir, 0o700), made.Make(n.keys)); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(n.keys, keys.DirServer, keys.FileConfig))
	if err != nil {
		return nil, err
	}
	for i, host := range n.hosts {
		config := strings.NewReplacer(
			n.store, fmt.Sprint(n.store, i), "server_name: retake", fmt.Sprint("server_name: retake", i),
			fmt.Sprintf("listen: \"127.0.0.1:%d\"", port), fmt.Sprintf("listen: \"%s:%d\"", host, port),
			fmt.Sprintf("listen: \"0.0.0.0:%d\"", routes), fmt.Sprintf("listen: \"%s:%d\"", host, routes),
		).Replace(string(text))
		file := filepath.Join(dir, fmt.Sprintf("server%d.conf", i))
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			return nil, err
		}
		n.servers = append(n.servers, &testbed.Process{
			Name: fmt.Sprint("NATS ", i), Argv: []string{self, "nats", file}, Env: os.Environ(),
			Log: filepath.Join(w.dir, fmt.Sprintf("nats%d.log", i)),
		})
	}
	for _, s := range n.servers {
		if err := s.Start(); err != nil {
			return n, err
		}
	}
	n.Process = n.servers[0]
	return n, testbed.Await(ctx, 20*time.Second, "NATS listens", n.listens)
}

func needsCluster(w *world) string {
	if w.bus != busCluster {
		return "it needs a cluster of NATS servers (BUS=cluster)"
	}
	return ""
}

func leads(leader, i int) bool   { return i == leader }
func follows(leader, i int) bool { return i != leader }

func stopRunning(p *testbed.Process) { p.Signal(syscall.SIGSTOP) }

// oneServer returns a throw that ends or suspends one server for a while. It picks a random server that part accepts.
func oneServer(part func(leader, i int) bool, end func(*testbed.Process)) func(context.Context, *world,
	*rand.Rand) (string, error) {
	return func(ctx context.Context, w *world, r *rand.Rand) (string, error) {
		order, d := r.Perm(clusterServers), between(r, time.Second, 12*time.Second)
		_, _ = w.victim(ctx, r)
		leader, err := w.nats.leaderOf(ctx, "RETAKE_JOURNAL_"+w.fleet)
		if err != nil {
			return "", err
		}
		i := order[slices.IndexFunc(order, func(i int) bool { return part(leader, i) })]
		s := w.nats.servers[i]
		end(s)
		err = testbed.Pause(ctx, d)
		s.Signal(syscall.SIGCONT)
		return fmt.Sprintf("server %d, for %v", i, d.Round(time.Millisecond)), orNot(err, s.Start)
	}
}

// leaderOf returns the number of the server that leads one of the director's streams.
func (n *nats) leaderOf(ctx context.Context, name string) (leader int, err error) {
	director, err := keys.Load(filepath.Join(n.keys, keys.DirDirector))
	if err != nil {
		return 0, err
	}
	user, err := director.Journal()
	if err != nil {
		return 0, err
	}
	trust, err := link.Trust(n.urls(), director.CA())
	if err != nil {
		return 0, err
	}
	nc, err := natsc.Connect(n.urls(), append(trust, natsc.UserJWTAndSeed(user.JWT, user.Seed))...)
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return 0, err
	}
	server, last := "", error(nil)
	err = testbed.Await(ctx, 20*time.Second, name+" has a leader", func() bool {
		ask, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		stream, err := js.Stream(ask, name)
		if last = err; err != nil {
			return false
		}
		server = stream.CachedInfo().Cluster.Leader
		return server != ""
	})
	if err != nil {
		return 0, errors.Join(err, last)
	}
	return strconv.Atoi(strings.TrimPrefix(server, "retake"))
}

// rollingRestart restarts the servers one after the other, as an upgrade does.
func rollingRestart(ctx context.Context, w *world, r *rand.Rand) (string, error) {
	for _, i := range r.Perm(clusterServers) {
		if err := w.nats.servers[i].Stop(); err != nil {
			return "", err
		}
		if err := orNot(testbed.Pause(ctx, between(r, 0, time.Second)), w.nats.servers[i].Start); err != nil {
			return "", err
		}
		if err := testbed.Pause(ctx, 4*time.Second); err != nil {
			return "", err
		}
	}
	return "", nil
}

// minority kills two of three servers, which stops all streams for a while.
func minority(ctx context.Context, w *world, r *rand.Rand) (string, error) {
	lives, d := r.IntN(clusterServers), between(r, time.Second, 8*time.Second)
	var dead []*testbed.Process
	for i, s := range w.nats.servers {
		if i != lives {
			s.Kill()
			dead = append(dead, s)
		}
	}
	err := testbed.Pause(ctx, d)
	for _, s := range dead {
		err = orNot(err, s.Start)
	}
	return fmt.Sprintf("only server %d running for %v", lives, d.Round(time.Millisecond)), err
}
