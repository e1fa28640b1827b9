package container

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/mount"
)

func goodSpec() Spec {
	return Spec{
		AttemptID: "k3v9qx2m-1", Task: "acme/widgets#21", Image: "img:1", Workdir: "/workspace",
		Checkout:   "/srv/checkout",
		Entrypoint: []string{WorkerPath, "--plan", Dir + "/plan.json"}, WorkerBinary: "/bin/worker",
		Env:   []string{"A=b"},
		Files: []File{{Name: "plan.json", Data: []byte("{}")}},
		Mounts: []Mount{
			{Source: "cache", Target: "/cache", Volume: true},
			{Source: "/usr/local/go", Target: "/usr/local/go", ReadOnly: true},
		},
		Memory: 64 << 20, CPUs: 0.5, Pids: 10, User: "1000:1001",
	}
}

func TestSpecIsRefused(t *testing.T) {
	if err := goodSpec().Validate(); err != nil {
		t.Fatalf("a valid spec: %v", err)
	}
	for _, c := range []struct {
		want   string // expected in the error
		change func(*Spec)
	}{
		{"attempt id", func(s *Spec) { s.AttemptID = "../x" }},
		{"attempt id", func(s *Spec) { s.AttemptID = "x" }},
		{"image", func(s *Spec) { s.Image = "" }},
		{"entrypoint", func(s *Spec) { s.Entrypoint = nil }},
		{"worker binary", func(s *Spec) { s.WorkerBinary = "" }},
		{"workdir", func(s *Spec) { s.Workdir = "relative" }},
		{"workdir", func(s *Spec) { s.Workdir = "/" }},
		{"workdir", func(s *Spec) { s.Workdir = Dir + "/w" }},
		{"checkout", func(s *Spec) { s.Checkout = "/a/../b" }},
		{"memory", func(s *Spec) { s.Memory = 0 }},
		{"cpus", func(s *Spec) { s.CPUs = 0 }},
		{"pids", func(s *Spec) { s.Pids = 0 }},
		{"never run as root", func(s *Spec) { s.User = "0:1000" }},
		{"never run as root", func(s *Spec) { s.User = "1000:0" }},
		{"never run as root", func(s *Spec) { s.User = "root" }},
		{"never run as root", func(s *Spec) { s.User = "" }},
		{"never run as root", func(s *Spec) { s.User = "1000:users" }},
		{"KEY=VALUE", func(s *Spec) { s.Env = []string{"=x"} }},
		{"scratch", func(s *Spec) { s.Scratch = []string{"relative"} }},
		{"scratch", func(s *Spec) { s.Scratch = []string{"/"} }},
		{"scratch", func(s *Spec) { s.Scratch = []string{"/cache", Dir + "/x"} }},
		{"without a directory", func(s *Spec) { s.Files[0].Name = "" }},
		{"without a directory", func(s *Spec) { s.Files[0].Name = "../plan.json" }},
		{"other than the worker program", func(s *Spec) { s.Files[0].Name = "worker" }},
	} {
		t.Run(c.want, func(t *testing.T) {
			s := goodSpec()
			c.change(&s)
			err := s.Validate()
			if !errors.Is(err, ErrSpec) || Transient(err) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want a permanent ErrSpec with %q", err, c.want)
			}
		})
	}
}

func TestRefusedEnvironmentIsNotPrinted(t *testing.T) {
	s := goodSpec()
	s.Env = []string{"hunter2"}
	if err := s.Validate(); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v, want an error without the value", err)
	}
}

func TestSocketIsNeverMounted(t *testing.T) {
	d := openFake(t, nil)
	for source, want := range map[string]bool{
		"/var/run/docker.sock": true, "/run": true, "/": true, "/var/run": true,
		filepath.Dir(strings.TrimPrefix(d.api.DaemonHost(), "unix://")): true,
		"/run/docker": false, "/srv/work": false, "/var/running": false,
	} {
		s := goodSpec()
		s.Mounts = []Mount{{Source: source, Target: "/there"}}
		if err := d.check(s); (err != nil) != want {
			t.Errorf("a mount of %q: %v, want it refused: %v", source, err, want)
		}
	}
}

func TestConfigConfines(t *testing.T) {
	config, host := apiConfig(goodSpec(), "fleet-a", "owner-a", "net-a", "", program{})
	for name, ok := range map[string]bool{
		"user":              config.User == "1000:1001",
		"no capabilities":   slices.Equal(host.CapDrop, []string{"ALL"}) && len(host.CapAdd) == 0,
		"no new privileges": slices.Equal(host.SecurityOpt, []string{"no-new-privileges"}) && !host.Privileged,
		"memory, no swap":   host.Memory == 64<<20 && host.MemorySwap == host.Memory,
		"cpus":              host.NanoCPUs == 500_000_000,
		"pids":              host.PidsLimit != nil && *host.PidsLimit == 10,
		"worker is PID 1":   host.Init != nil && !*host.Init,
		"tmp executes":      strings.Contains(host.Tmpfs["/tmp"], ",exec,"),
		"logs are bounded": host.LogConfig.Type == "json-file" && host.LogConfig.Config["max-size"] != "" &&
			host.LogConfig.Config["max-file"] != "",
		"never restarted": host.RestartPolicy.IsNone(),
		"kept until Stop": !host.AutoRemove,
		"network":         string(host.NetworkMode) == "net-a",
		"labels": config.Labels[LabelFleet] == "fleet-a" && config.Labels[LabelTask] == "acme/widgets#21" &&
			config.Labels[LabelAttempt] == "k3v9qx2m-1",
		"no health check": slices.Equal(config.Healthcheck.Test, []string{"NONE"}),
		"streams apart":   !config.Tty,
	} {
		if !ok {
			t.Errorf("%s: not true in %+v %+v", name, config, host)
		}
	}
	want := []mount.Mount{
		{Type: mount.TypeBind, Source: "/srv/checkout", Target: "/workspace"},
		{Type: mount.TypeVolume, Source: "cache", Target: "/cache"},
		{Type: mount.TypeBind, Source: "/usr/local/go", Target: "/usr/local/go", ReadOnly: true},
	}
	if !slices.Equal(host.Mounts, want) {
		t.Errorf("mounts = %+v, want %+v", host.Mounts, want)
	}
}

// TestArchiveBelongsToTheWorker checks the owner of all files. The program belongs to root, because stages also run it.
func TestArchiveBelongsToTheWorker(t *testing.T) {
	spec := goodSpec()
	var buf bytes.Buffer
	if err := archive(&buf, spec, strings.NewReader("ELF"), 3); err != nil {
		t.Fatal(err)
	}
	var got []string
	for r := tar.NewReader(&buf); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%v %d:%d %s", h.FileInfo().Mode(), h.Uid, h.Gid, h.Name))
	}
	want := []string{
		"dtrwxrwxrwx 0:0 retake/", "-r-xr-xr-x 0:0 retake/worker", "-rw------- 1000:1001 retake/plan.json",
		"drwxr-xr-x 1000:1001 cache/",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestWorkerBinaryMissing(t *testing.T) {
	for _, p := range []string{filepath.Join(t.TempDir(), "none"), t.TempDir()} {
		spec := goodSpec()
		spec.WorkerBinary = p
		if _, _, err := openWorker(spec); !errors.Is(err, ErrSpec) || !strings.Contains(err.Error(), p) {
			t.Errorf("got %v, want ErrSpec naming %s", err, p)
		}
	}
}
