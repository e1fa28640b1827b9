package attack

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus/wire"
	"retake/internal/config"
	"retake/internal/container"
	"retake/internal/director"
	"retake/internal/egress"
)

// shellVariable is an environment variable with the path of a settings file. If it is set, TestMain runs a director
// with these settings.
const shellVariable = "RETAKE_ATTACK_DIRECTOR"

// settings configure a director that this program runs.
type settings struct {
	Config string // path of its configuration file
	Worker string // binary
	Played string // directory of played workers; if empty, the configured runtime is used
	CA     string // file with the certificate of the hosts with keys; by default the real ones
	// Names maps names on the internet behind the workers' proxy to an address and, after a space, the server there.
	// Nil means real DNS.
	Names map[string]string
}

const token = "attack-token"

// runShell runs a director until SIGTERM. The director polls and writes more often than the limits of the real GitHub
// would allow.
func runShell(path string) error {
	var s settings
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		return err
	}
	c, problems := config.Load(s.Config, nil, nil)
	if err := problems.Err(); err != nil {
		return err
	}
	c.RateLimits.GitHub.MinBetweenWrites, c.GitHub.Poll = 20*time.Millisecond, 200*time.Millisecond
	c.Director.Interval = 500 * time.Millisecond
	log, err := zap.NewProduction()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	o := director.Options{
		Config: c, Log: log, WorkerBinary: s.Worker, DriftEvery: time.Minute, LeastBetween: time.Millisecond,
		Token: func(context.Context) (string, error) { return token, nil },
	}
	if s.Names != nil {
		o.Outside = s.internet
	}
	if s.Played != "" {
		o.Runtime = playedRuntime{s.Played}
	}
	return director.Run(ctx, o)
}

// internet makes the proxy resolve only the hosts in Names, and connect to the servers given there.
func (s settings) internet(o *egress.Options) {
	if s.CA != "" {
		roots := x509.NewCertPool()
		pem, err := os.ReadFile(s.CA)
		if err != nil || !roots.AppendCertsFromPEM(pem) {
			panic(fmt.Sprint(s.CA, ": no certificate: ", err))
		}
		o.TLS = &tls.Config{RootCAs: roots, ServerName: "example.com", MinVersion: tls.VersionTLS12}
	}
	o.Lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
		address, _, _ := strings.Cut(s.Names[host], " ")
		a, err := netip.ParseAddr(address)
		return []netip.Addr{a}, err
	}
	o.Dial = func(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error) {
		for _, where := range s.Names {
			if address, answers, ok := strings.Cut(where, " "); ok && address == to.Addr().String() {
				return (&net.Dialer{}).DialContext(ctx, network, answers)
			}
		}
		return (&net.Dialer{}).DialContext(ctx, network, to.String())
	}
}

// playedRuntime is a runtime with workers that the suite plays in another process. The two processes communicate
// through files in a directory. <id>.json has a worker's input, <id>.exit its exit code once it has ended, <id>.stop
// asks for its end, and <id>.gone removes it.
type playedRuntime struct{ dir string }

var _ container.Runtime = playedRuntime{}

// given is the content of <id>.json.
type given struct {
	Task, Checkout string
	Plan           wire.Plan
}

func (r playedRuntime) file(id, kind string) string                 { return filepath.Join(r.dir, id+"."+kind) }
func (playedRuntime) EnsureImage(context.Context, string) error     { return nil }
func (playedRuntime) EnsureNetwork(context.Context) (string, error) { return "127.0.0.1", nil }
func (playedRuntime) Warm(context.Context)                          {}
func (playedRuntime) Adopt(context.Context, string) error           { return nil }
func (playedRuntime) FollowOutput(context.Context, string, func(container.Printed)) error {
	return nil
}
func (playedRuntime) Workdir(s container.Spec) string { return s.Workdir }
func (playedRuntime) Close() error                    { return nil }

func (r playedRuntime) there(id, kind string) bool {
	_, err := os.Stat(r.file(id, kind))
	return err == nil
}

func (r playedRuntime) Watch(ctx context.Context, changed func()) error {
	for ctx.Err() == nil {
		select {
		case <-time.After(200 * time.Millisecond):
			changed()
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

func (r playedRuntime) Ensure(_ context.Context, s container.Spec) error {
	g := given{Task: s.Task, Checkout: s.Checkout}
	if err := json.Unmarshal(planOf(s), &g.Plan); err != nil {
		return err
	}
	data, err := json.Marshal(g)
	if err != nil {
		return err
	}
	tmp := r.file(s.AttemptID, "tmp")
	return errors.Join(os.WriteFile(tmp, data, 0o600), os.Rename(tmp, r.file(s.AttemptID, "json")))
}

func (r playedRuntime) Find(ctx context.Context, id string) (container.Status, bool, error) {
	all, err := r.List(ctx)
	for _, x := range all {
		if x.AttemptID == id {
			return x, true, err
		}
	}
	return container.Status{}, false, err
}

func (r playedRuntime) List(context.Context) (list []container.Status, err error) {
	files, err := filepath.Glob(filepath.Join(r.dir, "*.json"))
	for _, f := range files {
		id := strings.TrimSuffix(filepath.Base(f), ".json")
		if r.there(id, "gone") {
			continue
		}
		state := container.StateRunning
		if r.there(id, "exit") {
			state = container.StateExited
		}
		list = append(list, container.Status{AttemptID: id, State: state})
	}
	return list, err
}

func (r playedRuntime) Stop(_ context.Context, id string, _ time.Duration,
	record container.Recorder,
) (container.Exit, error) {
	if !r.there(id, "json") || r.there(id, "gone") {
		return container.Exit{}, nil
	}
	exit := container.Exit{Known: true, ExitCode: 137, Signal: "SIGKILL", Killed: true}
	if code, err := os.ReadFile(r.file(id, "exit")); err == nil {
		exit = container.Exit{Known: true}
		if exit.ExitCode, err = strconv.Atoi(string(code)); err != nil {
			return exit, err
		}
	}
	if err := os.WriteFile(r.file(id, "stop"), nil, 0o600); err != nil {
		return exit, err
	}
	if err := record.Keep(exit); err != nil {
		return exit, err
	}
	return exit, os.WriteFile(r.file(id, "gone"), nil, 0o600)
}
