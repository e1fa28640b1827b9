package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const devFile = "../../config/dev.toml"

func text(t testing.TB, doc string) (Config, string) {
	t.Helper()
	c, p := load("c.toml", []byte(doc), nil, nil)
	return c, p.String()
}

func TestDefaultsHaveNoProblems(t *testing.T) {
	c, p := Load("", nil, nil)
	if len(p) > 0 {
		t.Error(p)
	}
	if !reflect.DeepEqual(c, Default()) {
		t.Errorf("%v\nwant\n%v", c, Default())
	}
	if c.Timeouts.WorkerHeartbeatTTL != 90*time.Second || c.Containers.MemoryBytes() != 2<<30 ||
		c.AgentBus.ListenPort != 8731 || c.GitHub.Labels.Task != "agent-task" {
		t.Errorf("%v", c)
	}
	if uid, gid := c.Containers.UIDGID(); uid != 1000 || gid != 1000 {
		t.Errorf("%d:%d", uid, gid)
	}
}

// TestDevFile checks that the file loads, has the real defaults, and has every key.
func TestDevFile(t *testing.T) {
	t.Chdir("../..")
	c, p := Load(Template, nil, nil) // its paths are relative to the working directory
	t.Chdir("internal/config")
	if len(p) > 0 {
		t.Fatal(p)
	}
	want := Default()
	want.Stages = []Stage{
		{
			Name: "CODE", Run: []string{"my-agent", "--headless"}, Paid: "always", StatePaths: []string{},
			Timeout: 1800 * time.Second,
		},
		{
			Name: "VALIDATE", Run: []string{"make", "test"}, Paid: "auto", StatePaths: []string{},
			Timeout: 900 * time.Second,
		},
	}
	want.assumed = c.assumed // the file sets all keys, the defaults set none
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got\n%v\nwant\n%v", c, want)
	}
	data, err := os.ReadFile(devFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range allRows {
		_, last := cutLast(r.key)
		if !regexp.MustCompile(`(?m)(^|^# |[{,] )` + last + ` = `).Match(data) {
			t.Errorf("%s is missing in config/dev.toml", r.key)
		}
	}
}

// TestReference compares keys and defaults with the design's list, except for unsupported keys.
func TestReference(t *testing.T) {
	data, err := os.ReadFile("testdata/reference.toml")
	if err != nil {
		t.Fatal(err)
	}
	c, problems := load("ref", data, nil, nil)
	seen := map[string]bool{}
	for _, p := range problems {
		seen[p.Key] = true
		if !strings.HasPrefix(p.Text, "not supported yet: ") {
			t.Error(p)
		}
	}
	for key := range unsupported {
		if !seen[key] {
			t.Errorf("%s is not in the reference", key)
		}
	}
	if c.Stages, c.assumed = nil, Default().assumed; !reflect.DeepEqual(c, Default()) {
		t.Errorf("defaults differ: reference\n%v\nours\n%v", c, Default())
	}
}

func TestOrder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.toml")
	if err := os.WriteFile(file, []byte("[director]\nmax_workers = 5\nmax_retries = 5\nfleet = \"file\"\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{
		"RETAKE_CFG_DIRECTOR_MAX_RETRIES=6", "RETAKE_CFG_DIRECTOR_FLEET=env", "UNRELATED=1",
		"RETAKE_TESTDATA=x", "odd",
	}
	c, p := Load(file, env, map[string]string{"director.fleet": "flag"})
	if len(p) > 0 || c.Director.MaxWorkers != 5 || c.Director.MaxRetries != 6 || c.Director.Fleet != "flag" ||
		c.Director.DataDir != filepath.Join(filepath.Dir(file), ".retake") {
		t.Errorf("%v, %+v", p, c.Director)
	}
}

func TestEveryKindFromEnvironment(t *testing.T) {
	env := []string{
		"RETAKE_CFG_RATE_LIMITS_GITHUB_MIN_SECONDS_BETWEEN_WRITES=2.5",
		"RETAKE_CFG_GITHUB_WRITES=true",
		"RETAKE_CFG_GITHUB_REPOSITORIES=acme/widgets, acme/gears",
		`RETAKE_CFG_CONTAINERS_ENV_PASSTHROUGH=["A_KEY"]`,
		"RETAKE_CFG_CONTAINERS_ENV=GOPROXY=off,GOFLAGS=-mod=mod",
		"RETAKE_CFG_CONTAINERS_MOUNTS=volume:cache:/cache,/opt/go:/opt/go",
		"RETAKE_CFG_CONTAINERS_MEMORY=512m",
		"RETAKE_CFG_CONTAINERS_CPUS=0.5",
		"RETAKE_CFG_GITHUB_LABELS_TASK=do it",
		"RETAKE_CFG_GITHUB_API_URL=http://localhost:8080/api",
		"RETAKE_CFG_AGENT_BUS_URL=nats://u:hunter2@nats:4222",
		"RETAKE_CFG_AGENT_BUS_CREDENTIALS=keys/director",
	}
	c, p := Load("", env, nil)
	if len(p) > 0 {
		t.Fatal(p)
	}
	want := Default()
	want.RateLimits.GitHub.MinBetweenWrites = 2500 * time.Millisecond
	want.GitHub.Writes = true
	want.GitHub.Repositories = []string{"acme/widgets", "acme/gears"}
	want.Containers.EnvPassthrough = []string{"A_KEY"}
	want.Containers.Env = map[string]string{"GOPROXY": "off", "GOFLAGS": "-mod=mod"}
	want.Containers.Mounts = []string{"volume:cache:/cache", "/opt/go:/opt/go"}
	want.Containers.Memory = "512m"
	want.Containers.CPUs = 0.5
	want.GitHub.Labels.Task = "do it"
	want.GitHub.APIURL = "http://localhost:8080/api/"
	want.AgentBus.URL, want.AgentBus.Credentials = "nats://u:hunter2@nats:4222", "keys/director"
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got\n%v\nwant\n%v", c, want)
	}
	if c.Containers.MemoryBytes() != 512<<20 ||
		!slices.Equal(c.Containers.ParsedMounts(), []Mount{
			{Source: "cache", Target: "/cache", Volume: true},
			{Source: "/opt/go", Target: "/opt/go", ReadOnly: true},
		}) {
		t.Errorf("%d, %v", c.Containers.MemoryBytes(), c.Containers.ParsedMounts())
	}
	for _, shown := range []string{c.String(), fmt.Sprintf("%v %+v %#v %s", c, c, c, c)} {
		if strings.Contains(shown, "hunter2") {
			t.Errorf("the password is shown: %s", shown)
		}
	}
}

// TestStringLoadsAgain parses the output of `config show` as a configuration file.
func TestStringLoadsAgain(t *testing.T) {
	c, problems := text(t, `
containers.mounts = ["/a:/b:rw", "/c:/d", "volume:ee:/f", "volume:gg:/h:ro"]
containers.env = { B = "quo\"te\\ \u0007", A = "x" }
containers.memory = "1536MiB"
director.interval_seconds = 0.25
[[stage]]
name = "CODE"
run = ["a b", "é\n"]
`)
	if problems != "" {
		t.Fatal(problems)
	}
	again, problems := text(t, c.String())
	again.assumed = c.assumed // the output sets all keys
	if problems != "" || !reflect.DeepEqual(again, c) {
		t.Errorf("%s\ngot\n%v\nwant\n%v", problems, again, c)
	}
}

func TestNamesAreUnique(t *testing.T) {
	seen := map[string]string{}
	for _, key := range append(slices.Collect(maps.Keys(byKey(allRows))), slices.Collect(maps.Keys(unsupported))...) {
		if other, ok := seen[envName(key)]; ok {
			t.Errorf("%s and %s have one variable", key, other)
		}
		seen[envName(key)] = key
	}
}

func TestRowsAreWhole(t *testing.T) {
	for _, r := range allRows {
		if r.doc == "" || r.to == nil || strings.Count(r.key, ".") == 0 {
			t.Errorf("%s is incomplete", r.key)
		}
		if strings.Contains(r.wants(), "from 0 to 0") {
			t.Errorf("%s has no range", r.key)
		}
	}
}

func TestFilesThatAreNone(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	huge := write("huge", nil)
	if err := os.Truncate(huge, 50<<20); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "missing"): "`director config init --output ",
		dir:                           "is a directory",
		huge:                          "exceeds the limit of 262144 bytes",
		pipe:                          "not a regular file",
		write("latin1", []byte("a = 1\nb = \"caf\xe9\"")):          "2:9: not UTF-8",
		write("utf16", []byte("\xff\xfea\x00")):                    "1:1: not UTF-8",
		write("nul", []byte("a = \x00")):                           "1:5: not UTF-8",
		write("deep", []byte("a = "+strings.Repeat("[", 100_000))): "not TOML",
		write("broken", []byte("[director]\nmax_workers = \n")):    "2:15: not TOML",
		write("twice", []byte("[director]\nfleet='a'\nfleet='b'")): "3:1: not TOML",
	} {
		c, p := Load(path, nil, nil)
		if len(p) != 1 || !strings.Contains(p.String(), want) || !strings.HasPrefix(p.String(), path) ||
			strings.Contains(p.String(), "\n") {
			t.Errorf("%s: want %q, got\n%v", path, want, p)
		}
		c.Director.DataDir = Default().Director.DataDir // Load has made it relative to the file's directory
		if !reflect.DeepEqual(c, Default()) {
			t.Errorf("%s: not the defaults", path)
		}
	}
	if _, p := Load(write("bom", []byte("\xef\xbb\xbf[director]\nmax_workers = 2\n")), nil, nil); len(p) > 0 {
		t.Error(p)
	}
}
