package container_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/network"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"retake/internal/container"
)

var inspectNetwork = regexp.MustCompile(`^(/v[0-9.]+)?/networks/[^/]+$`)

// renameBridge starts an engine that claims another bridge for each network, as an engine with other names does. It
// passes all requests to the real engine.
func renameBridge(t *testing.T, bridge string) {
	t.Helper()
	at, err := url.Parse(engine.api.DaemonHost())
	if err != nil || at.Scheme != "unix" {
		t.Skip("the engine is not behind a socket: " + engine.api.DaemonHost())
	}
	socket := filepath.Join(t.TempDir(), "renamed.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "docker"}) },
		Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "unix", at.Path)
			},
		},
		FlushInterval: -1,
		ModifyResponse: func(r *http.Response) error {
			if r.Request.Method != http.MethodGet || !inspectNetwork.MatchString(r.Request.URL.Path) {
				return nil
			}
			var seen network.Inspect
			if err := json.NewDecoder(r.Body).Decode(&seen); err != nil {
				return err
			}
			seen.Options = map[string]string{"com.docker.network.bridge.name": bridge}
			body, err := json.Marshal(seen)
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			r.Header.Set("Content-Length", strconv.Itoa(len(body)))
			return err
		},
	}}
	served := make(chan struct{})
	go func() { defer close(served); _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close(); <-served })
	t.Setenv("DOCKER_HOST", "unix://"+socket)
}

// TestRulesThatDoNotConfine: rules for another bridge than the network's do not count as a firewall, whether that
// bridge exists or not.
func TestRulesThatDoNotConfine(t *testing.T) {
	needDocker(t)
	other := engine.network + "-elsewhere"
	if _, err := engine.api.NetworkCreate(t.Context(), other, network.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	removeNamed(t, other)
	const down, stands = "firewall for the worker network is down", "firewall for the worker network activated"
	for name, row := range map[string]struct{ bridge, says string }{
		"a bridge that does not exist": {"retake-none0", "retake-none0"},
		"another network's bridge":     {"br-" + named(t, other)[0].ID[:12], "reached"},
	} {
		t.Run(name, func(t *testing.T) {
			renameBridge(t, row.bridge)
			d, logs := openLogged(t)
			e := container.Egress{Closed: true, Image: engine.image, WorkerBinary: engine.probe}
			if err := d.Confine(t.Context(), e); err == nil || !strings.Contains(err.Error(), row.says) {
				t.Errorf("closed: got %v, want an error with %q", err, row.says)
			}
			s := spec(t, "exit", "0")
			if err := d.Ensure(t.Context(), s); err == nil {
				t.Error("closed: a worker was started")
			}
			stop(t, d, s.AttemptID)
			if n := logs.FilterMessageSnippet(stands).Len(); n > 0 {
				t.Error("the log has an active firewall")
			}
			e.Closed = false
			if err := d.Confine(t.Context(), e); err != nil {
				t.Errorf("open: %v", err)
			}
			if n := logs.FilterMessageSnippet(down).Len(); n != 1 {
				t.Errorf("open: %d warnings, want one: %v", n, logs.All())
			}
		})
	}
}

// openLogged opens the engine with a separate network, which it removes with its rules at the end of the test.
func openLogged(t *testing.T) (*container.Docker, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	name := engine.network + "-" + strings.ToLower(rand.Text()[:8])
	d, err := container.OpenDocker(t.Context(), container.Options{
		Fleet: engine.fleet + "-trial", Network: name, Log: zap.New(core),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := errors.Join(d.Unconfine(context.Background()), d.RemoveNetwork(context.Background()), d.Close())
		if err != nil {
			t.Error(err)
		}
	})
	if _, err := d.EnsureNetwork(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d, logs
}

// TestRulesAreTriedOnce: the director renews rules without a trial, unless the kernel has lost them.
func TestRulesAreTriedOnce(t *testing.T) {
	needDocker(t)
	t.Parallel()
	d, logs := openLogged(t)
	trials := func() int { return logs.FilterMessageSnippet("a trial container could not reach").Len() }
	if err := d.Confine(t.Context(), container.Egress{
		Closed: true, Image: engine.image, WorkerBinary: engine.probe,
	}); err != nil || trials() != 1 {
		t.Fatalf("%v, %d trials, want one: %v", err, trials(), logs.All())
	}
	t.Log(logs.All()[len(logs.All())-1].ContextMap())
	d.AgeFence()
	if exit := run(t, d, spec(t, "exit", "0")); exit.ExitCode != 0 || trials() != 1 {
		t.Errorf("after a renewal: %+v, %d trials", exit, trials())
	}
	bridge := d.FenceBridge()
	if !hasTable(t, bridge) {
		t.Fatal("rules are missing")
	}
	out, err := exec.Command("nft", "delete table inet retake-"+bridge+"-"+engine.fleet+"-trial").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	d.AgeFence()
	if exit := run(t, d, spec(t, "exit", "0")); exit.ExitCode != 0 || trials() != 2 {
		t.Errorf("after the kernel lost the rules: %+v, %d trials, want two", exit, trials())
	}
}
