package container

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/network"
)

// answers is a stand-in for an engine that fails. It has one answer per method and path.
type answers map[string]http.HandlerFunc

var versionPrefix = regexp.MustCompile(`^/v1\.\d+`)

func say(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

func openFake(t *testing.T, a answers) *Docker {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "d.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Method + " " + versionPrefix.ReplaceAllString(r.URL.Path, "")
		if r.URL.Path == "/_ping" {
			w.Header().Set("Api-Version", "1.41")
			return
		}
		if h, ok := a[key]; ok {
			h(w, r)
			return
		}
		say(http.StatusNotFound, `{"message":"no answer for `+key+`"}`)(w, r)
	}))
	server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	t.Setenv("DOCKER_HOST", "unix://"+socket)
	d, err := OpenDocker(t.Context(), Options{Fleet: "f", Network: "n"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	d.limits.confirm, d.limits.operation = 50*time.Millisecond, 5*time.Second
	return d
}

func inspected(state string) http.HandlerFunc {
	return say(http.StatusOK, `{"Id":"c1","Name":"/at-1","Config":{"Labels":{"retake.fleet":"f"}},"State":`+state+`}`)
}

func blocks(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func wantTransient(t *testing.T, err error, text string) {
	t.Helper()
	if !errors.Is(err, ErrDaemon) || !Transient(err) || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want a transient ErrDaemon with %q", err, text)
	}
}

func TestStopNeverPretendsThatItEnded(t *testing.T) {
	d := openFake(t, answers{
		"GET /containers/at-1/json": inspected(`{"Status":"running","Running":true}`),
		"GET /containers/c1/json":   inspected(`{"Status":"running","Running":true}`),
		"POST /containers/c1/kill":  say(http.StatusNoContent, ""),
		"POST /containers/c1/wait":  blocks,
		"DELETE /containers/c1": func(http.ResponseWriter,
			*http.Request,
		) {
			t.Error("removed a running container")
		},
	})
	_, err := d.Stop(t.Context(), "at-1", time.Millisecond, nil)
	wantTransient(t, err, "still running after SIGKILL")
}

func TestStopNeverPretendsThatItIsGone(t *testing.T) {
	const exited = `{"Status":"exited","ExitCode":3,"FinishedAt":"2026-11-21T10:00:00Z","StartedAt":"2026-11-21T09:00:00Z"}`
	d := openFake(t, answers{
		"GET /containers/at-1/json": inspected(exited),
		"GET /containers/c1/json":   inspected(exited),
		"GET /containers/c1/logs":   say(http.StatusOK, ""),
		"GET /events":               say(http.StatusOK, ""),
		"DELETE /containers/c1":     say(http.StatusConflict, `{"message":"removal is already in progress"}`),
	})
	_, err := d.Stop(t.Context(), "at-1", 0, nil)
	wantTransient(t, err, "still lists it")
}

func TestStopWhileTheDaemonIsInTrouble(t *testing.T) {
	d := openFake(t, answers{"GET /containers/at-1/json": say(http.StatusInternalServerError,
		`{"message":"disk on fire"}`)})
	_, err := d.Stop(t.Context(), "at-1", 0, nil)
	wantTransient(t, err, "disk on fire")
}

func TestUnreadableLogsDoNotKeepAContainer(t *testing.T) {
	gone := false
	const exited = `{"Status":"exited","ExitCode":3}`
	d := openFake(t, answers{
		"GET /containers/at-1/json": inspected(exited),
		"GET /containers/c1/json": func(w http.ResponseWriter, r *http.Request) {
			if gone {
				say(http.StatusNotFound, `{"message":"No such container"}`)(w, r)
				return
			}
			inspected(exited)(w, r)
		},
		"GET /containers/c1/logs": say(http.StatusInternalServerError, `{"message":"log file is damaged"}`),
		"GET /events":             say(http.StatusOK, ""),
		"DELETE /containers/c1": func(w http.ResponseWriter, _ *http.Request) {
			gone = true
			w.WriteHeader(http.StatusNoContent)
		},
	})
	exit, err := d.Stop(t.Context(), "at-1", 0, nil)
	if err != nil || !exit.Known || exit.ExitCode != 3 {
		t.Errorf("got %+v, %v; want a known end with 3", exit, err)
	}
}

func TestBeginningOfAnIDIsNotAName(t *testing.T) {
	d := openFake(t, answers{
		"GET /containers/abc1/json": say(http.StatusOK,
			`{"Id":"abc123","Name":"/other","Config":{"Labels":{"retake.fleet":"f"}},"State":{"Status":"running"}}`),
	})
	if exit, err := d.Stop(t.Context(), "abc1", 0, nil); err != nil || exit.Known {
		t.Errorf("got %+v, %v; want an absent container", exit, err)
	}
}

func TestForeignContainerIsLeftAlone(t *testing.T) {
	d := openFake(t, answers{
		"GET /containers/at-1/json": say(http.StatusOK,
			`{"Id":"c1","Name":"/at-1","Config":{"Labels":{"retake.fleet":"other"}},"State":{"Status":"running"}}`),
	})
	if _, err := d.Stop(t.Context(), "at-1", 0, nil); !errors.Is(err, ErrSpec) ||
		!strings.Contains(err.Error(), "outside fleet f") {
		t.Errorf("got %v, want ErrSpec", err)
	}
}

func TestNetworkThatCannotServe(t *testing.T) {
	for _, c := range []struct{ body, want string }{
		{`[{"Name":"n","Id":"n1","Driver":"macvlan"}]`, `driver "macvlan"`},
		{`[{"Name":"n","Id":"n1","Driver":"bridge"},{"Name":"nn","Id":"n2","Driver":"bridge","IPAM":{"Config":[{"Gateway":"10.0.0.1"}]}}]`, "no gateway"},
	} {
		d := openFake(t, answers{"GET /networks": say(http.StatusOK, c.body)})
		_, err := d.EnsureNetwork(t.Context())
		if !errors.Is(err, ErrNetwork) || Transient(err) || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), "docker network rm n") {
			t.Errorf("got %v, want a permanent ErrNetwork with %q and the next step", err, c.want)
		}
	}
}

func TestGateway(t *testing.T) {
	for _, c := range []struct {
		gateways []string
		want     string
	}{
		{[]string{"172.18.0.1"}, "172.18.0.1"},
		{[]string{"172.18.0.1/16"}, "172.18.0.1"},
		{[]string{"fd00::1", "10.0.0.1"}, "10.0.0.1"},
		{[]string{"", "fd00::1"}, "fd00::1"},
		{[]string{"nonsense"}, ""},
	} {
		var ipam network.IPAM
		for _, g := range c.gateways {
			ipam.Config = append(ipam.Config, network.IPAMConfig{Gateway: g})
		}
		if got, err := gatewayOf(ipam); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("gatewayOf(%v) = %q, %v; want %q", c.gateways, got, err, c.want)
		}
	}
}

func TestPullOutcomes(t *testing.T) {
	for _, c := range []struct {
		name      string
		answer    http.HandlerFunc
		want      string
		transient bool
	}{
		{"registry denies access", say(http.StatusNotFound, `{"message":"pull access denied"}`), "pull access " +
			"denied", false},
		{
			"registry unreachable", say(http.StatusInternalServerError, `{"message":"no such host"}`), "no such host",
			true,
		},
		{"fails late", say(http.StatusOK, `{"status":"Pulling"}`+"\n"+
			`{"error":"unexpected layer","errorDetail":{"message":"unexpected layer"}}`), "unexpected layer", true},
		{"breaks off", say(http.StatusOK, `{"status":`), "unexpected EOF", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := openFake(t, answers{"POST /images/create": c.answer})
			err := d.pull(t.Context(), "img:1")
			if !errors.Is(err, ErrImagePull) || !errors.Is(err, ErrImageMissing) || Transient(err) != c.transient {
				t.Errorf("got %v (transient %v), want ErrImagePull, transient %v", err, Transient(err), c.transient)
			}
			for _, part := range []string{c.want, "img:1", "containers.image"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q lacks %q", err, part)
				}
			}
		})
	}
}

func TestOpenAgainstASocketThatNobodyServes(t *testing.T) {
	dir := t.TempDir()
	stale := filepath.Join(dir, "stale.sock")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	listener.Close()
	for _, socket := range []string{filepath.Join(dir, "absent.sock"), stale} {
		t.Setenv("DOCKER_HOST", "unix://"+socket)
		_, err := OpenDocker(t.Context(), Options{Fleet: "f", Network: "n"})
		wantTransient(t, err, socket)
		if err == nil || !strings.Contains(err.Error(), "systemctl start docker") ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: want one line with the next step", err)
		}
	}
}

func TestOpenAgainstADaemonThatHangs(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "d.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	t.Setenv("DOCKER_HOST", "unix://"+socket)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = OpenDocker(ctx, Options{Fleet: "f", Network: "n"})
	wantTransient(t, err, "no answer from unix://"+socket)
}

func TestOpenRefusesNonsense(t *testing.T) {
	for _, o := range []Options{{Network: "n"}, {Fleet: "f"}, {Fleet: "a=b", Network: "n"}} {
		if _, err := OpenDocker(t.Context(), o); !errors.Is(err, ErrSpec) {
			t.Errorf("%+v: got %v, want ErrSpec", o, err)
		}
	}
	t.Setenv("DOCKER_HOST", "nonsense")
	if _, err := OpenDocker(t.Context(), Options{Fleet: "f", Network: "n"}); !errors.Is(err, ErrDaemon) ||
		Transient(err) || !strings.Contains(err.Error(), "DOCKER_HOST") {
		t.Errorf("got %v, want a permanent ErrDaemon naming DOCKER_HOST", err)
	}
}

func TestLongerTailWins(t *testing.T) {
	for _, c := range []struct{ name, logged, ring, want string }{
		{"the file has more", "ready bye", "ready", "ready bye"},
		{"both are full, but the file is newer", "bcd", "abc", "bcd"},
		{"pushed out of the file", "", "one line", "one line"},
	} {
		if got := string(longer([]byte(c.logged), []byte(c.ring))); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
