package director

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"retake/internal/container"
	"retake/internal/director/lead"
	"retake/internal/director/loop"
	"retake/internal/director/operator"
	"retake/internal/director/preflight"
	"retake/internal/doctor"
	"retake/internal/github/githubtest"
	"retake/internal/patience"
)

// looked checks a doctor's findings about a director's world. It compares the level and the beginning of each finding
// of one check.
func (s *harness) looked(o Options, needs ...doctor.Needs) (report doctor.Report, of func(check string) string) {
	s.t.Helper()
	w := preflight.Connect(preflight.Options{
		Config: o.Config, Token: o.Token, Login: o.Login, Rights: o.Rights, WorkerBinary: o.WorkerBinary,
		Transport: o.Transport,
	}, doctor.World{How: "-c", Lookup: func(name string) (string, bool) {
		return s.token, name == "GITHUB_TOKEN"
	}})
	r, err := doctor.Examine(s.t.Context(), w, needs...)
	must(s.t, err)
	return r, func(check string) (lines string) {
		for _, f := range r.Findings {
			if f.Check == check {
				lines += string(f.Level) + ": " + f.String() + "\n"
			}
		}
		return lines
	}
}

// headed adds headers of GitHub that the stand-in does not send.
type headed struct {
	http.RoundTripper
	header http.Header
}

func (h headed) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := h.RoundTripper.RoundTrip(r)
	if err == nil {
		for name, values := range h.header {
			answer.Header[name] = values
		}
	}
	return answer, err
}

// onlyReads checks that GitHub did not get a request that writes.
func (s *harness) onlyReads() {
	s.t.Helper()
	for _, r := range s.github.Requests() {
		if r.Method != http.MethodGet {
			s.t.Errorf("%s %s", r.Method, r.Path)
		}
	}
}

// expects checks that the findings of each check contain a text.
func expects(t *testing.T, of func(check string) string, want map[string]string) {
	t.Helper()
	for check, text := range want {
		if !strings.Contains(of(check), text) {
			t.Errorf("%s: want %q in\n%s", check, text, of(check))
		}
	}
}

// TestPreflightReadsGitHubAndChangesNothing checks the findings about account, rights, repository, branch and labels.
func TestPreflightReadsGitHubAndChangesNothing(t *testing.T) {
	s := newHarness(t, nil)
	s.config.Containers.Runtime = "process"
	must(t, s.github.AddRepo("acme/gadgets", "", map[string]string{"octocat": "write"}))
	s.github.AddUser("octocat", "octo")
	s.config.GitHub.Repositories = []string{repo, "acme/none"}
	o := s.options()
	_, of := s.looked(o, doctor.NeedsGitHub)
	expects(t, of, map[string]string{
		"github":       "accepts the token for retake-bot, which belongs to a person",
		"clock":        "s off GitHub's clock",
		"rights":       "GitHub does not list the write permissions of a token",
		"repositories": "ok: " + repo,
		"base branch":  "ok: " + repo + " has main",
		"labels": "ok: " + repo + " lacks agent-task, agent-claimed, agent-blocked, agent-review; the first " +
			"start creates them",
	})
	if got := of("repositories"); !strings.Contains(got, "problem: acme/none: github: not_found") {
		t.Error(got)
	}

	s.config.GitHub.Repositories, s.config.GitHub.BaseBranch = []string{"acme/gadgets"}, "master"
	o = s.options()
	o.Transport = headed{http.DefaultTransport, http.Header{
		"X-Oauth-Scopes":                         {"gist, read:org"},
		"Github-Authentication-Token-Expiration": {time.Now().Add(time.Hour).UTC().Format("2006-01-02 15:04:05 MST")},
		"Date":                                   {time.Now().Add(-3 * time.Minute).UTC().Format(http.TimeFormat)},
	}}
	report, of := s.looked(o, doctor.NeedsGitHub)
	expects(t, of, map[string]string{
		"clock":        "warning: 3m",
		"rights":       "problem: the token's scopes are gist, read:org, which do not include repo",
		"repositories": "problem: acme/gadgets does not accept pushes from retake-bot",
	})
	if !strings.Contains(of("rights"), "warning: the token expires at ") || report.OK {
		t.Error(of("rights"))
	}

	must(t, s.github.Inject(githubtest.Fault{
		Path: "check-runs", Status: http.StatusForbidden,
		Body: `{"message":"Resource not accessible by personal access token"}`,
	}))
	s.config.GitHub.Repositories = []string{repo}
	if _, of = s.looked(s.options(), doctor.NeedsGitHub); !strings.Contains(of("repositories"),
		"lacks permission to read checks") || !strings.Contains(of("base branch"), "has no branch master") {
		t.Error(of("repositories"), of("base branch"))
	}
	s.token = "wrong"
	if _, of = s.looked(s.options(), doctor.NeedsGitHub); !strings.Contains(of("github"),
		"problem: github: unauthorized") || !strings.HasPrefix(of("labels"), "not tried") {
		t.Error(of("github"), of("labels"))
	}
	s.onlyReads()
	if _, err := os.Stat(s.config.Director.DataDir); !os.IsNotExist(err) {
		t.Errorf("the data directory was created: %v", err)
	}
}

// TestPreflightBesideADirector checks that a doctor notices a running director and does not disturb it, and that it
// reads the director's data after the end.
func TestPreflightBesideADirector(t *testing.T) {
	s := newHarness(t, func(context.Context, *fakeWorker) int { return 0 })
	s.config.Containers.Runtime = "process"
	if _, of := s.looked(s.options(), doctor.OnMachine); !strings.Contains(of("director"),
		"ok: no director is running") || !strings.Contains(of("journal"), "ok: no journal exists") {
		t.Error(of("director"), of("journal"))
	}
	s.start()
	s.until("the director is healthy", func() bool {
		h, err := operator.AskHealth(t.Context(), s.config.Director.DataDir)
		return err == nil && h.OK
	})
	if _, of := s.looked(s.options(), doctor.OnMachine); !strings.Contains(of("director"),
		"ok: a director with this data_dir is already running: healthy") ||
		!strings.HasPrefix(of("journal"), "not tried: a director is running") ||
		!strings.HasPrefix(of("ports"), "ok: used by the running director") {
		t.Error(of("director"), of("journal"), of("ports"))
	}
	s.stop()
	var silent lead.Lock
	must(t, silent.Take(t.Context(), s.config.Director.DataDir))
	if _, of := s.looked(s.options(), doctor.OnMachine); !strings.Contains(of("director"),
		"problem: a director is running with this data_dir, but does not respond") {
		t.Error(of("director"))
	}
	must(t, silent.Close())
	before := filesIn(t, s.config.Director.DataDir)
	report, of := s.looked(s.options(), doctor.OnMachine)
	if !strings.Contains(of("journal"), "ok: undamaged: ") || !strings.Contains(of("disk"), "free") {
		t.Error(report.Findings)
	}
	if after := filesIn(t, s.config.Director.DataDir); !slices.Equal(before, after) {
		t.Errorf("left behind\n%q\n%q", before, after)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	s.config.Director.HTTPListen = taken.Addr().String()
	if _, of := s.looked(s.options(), doctor.OnMachine); !strings.Contains(of("ports"),
		"problem: director.http_listen: cannot listen on "+taken.Addr().String()) {
		t.Error(of("ports"))
	}
}

func filesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		names = append(names, path)
		return err
	}))
	return names
}

// TestPreflightLooksFromInside runs the checks in a real container of the image, on a temporary network.
func TestPreflightLooksFromInside(t *testing.T) {
	engine, err := container.OpenDocker(t.Context(), container.Options{Fleet: "probe", Network: "probe"})
	if err != nil {
		if os.Getenv("RETAKE_REQUIRE_DOCKER") != "" {
			t.Fatal(err)
		}
		t.Skip("no Docker engine answers:", err)
	}
	must(t, engine.Close())
	s := newHarness(t, nil)
	must(t, os.MkdirAll(s.config.Director.DataDir, 0o700))
	placeWorker(t, s.options().WorkerBinary)
	image := cheatImage(t)
	s.config.Containers.Runtime, s.config.Containers.Image, s.config.Containers.Network = "docker", image,
		"doctor-test-"+loop.NewNonce()
	s.config.AgentBus.ListenPort = freePort(t)
	s.config.Stages[0].Run = []string{"/cheat"}
	before := engineHas(t)
	_, of := s.looked(s.options(), doctor.NeedsEngine)
	port := strconv.Itoa(s.config.AgentBus.ListenPort)
	for check, want := range map[string]string{
		"engine": "ok: Docker at ", "image": "ok: " + image + " is available locally", "network": "does not exist",
		"container": "ok: a container on a temporary network reaches the bus at this machine, port " + port +
			"\nok: the image contains /cheat\n",
	} {
		if !strings.Contains(of(check), want) {
			t.Errorf("%s: want %q in\n%s", check, want, of(check))
		}
	}
	s.config.Containers.OCIRuntime = "no-such-runtime"
	if _, of := s.looked(s.options(), doctor.NeedsEngine); !strings.HasPrefix(of("engine"), "problem: ") ||
		!strings.Contains(of("engine"), "runtime no-such-runtime") {
		t.Error(of("engine"))
	}
	s.config.Containers.OCIRuntime = ""
	// this machine lacks it
	s.config.Stages[0].Run, s.config.AgentBus.ListenAddr = []string{"nothing-like-it"}, "192.0.2.1"
	if _, of = s.looked(s.options(), doctor.NeedsEngine); !strings.Contains(of("container"),
		"does not contain the program nothing-like-it") || !strings.Contains(of("container"), "cannot listen there") {
		t.Error(of("container"))
	}
	s.config.Containers.Image = "127.0.0.1:1/none:1"
	if _, of = s.looked(s.options(), doctor.NeedsEngine); !strings.HasPrefix(of("image"), "problem: ") ||
		!strings.HasPrefix(of("container"), "not tried: ") {
		t.Error(of("image"), of("container"))
	}
	// Other doctors on this machine create objects, too, but remove them. A leaked object remains.
	left := slices.DeleteFunc(engineHas(t), func(name string) bool { return slices.Contains(before, name) })
	for deadline := time.Now().Add(patience.For(20 * time.Second)); len(left) > 0 && time.Now().Before(deadline); {
		time.Sleep(200 * time.Millisecond)
		now := engineHas(t)
		left = slices.DeleteFunc(left, func(name string) bool { return !slices.Contains(now, name) })
	}
	if len(left) > 0 {
		t.Errorf("left behind %q", left)
	}
	if left := filesIn(t, s.config.Director.DataDir); len(left) != 1 {
		t.Errorf("left behind %q", left)
	}
}

// engineHas lists the objects in the engine that a doctor could leave behind. All of their names contain "doctor".
func engineHas(t *testing.T) []string {
	t.Helper()
	var out bytes.Buffer
	for _, args := range [][]string{
		{"ps", "-a", "--format", "{{.Names}}", "--filter", "name=doctor-"},
		{"network", "ls", "--format", "{{.Name}}", "--filter", "name=doctor"},
		{"volume", "ls", "-q", "--filter", "name=doctor"},
	} {
		list := exec.Command("docker", args...)
		list.Stdout = &out
		must(t, list.Run())
	}
	return slices.Collect(strings.Lines(out.String()))
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
