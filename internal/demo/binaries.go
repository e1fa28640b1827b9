package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// program is one of ours that runs in containers.
type program struct{ file, source string }

var (
	workerProgram = program{"worker", "./cmd/worker"}
	agentProgram  = program{"demo-agent", "./internal/demo/agent"}
)

// binary returns a static binary: the one beside the director (make build), else built from the module's source, when the
// demo is run inside of it.
func binary(ctx context.Context, p program, director, into string) (string, error) {
	beside := filepath.Join(filepath.Dir(director), p.file)
	if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
		return beside, nil
	}
	root, ok := moduleRoot()
	if !ok {
		return "", fmt.Errorf(`demo: no %s beside %s, and this is not Retake's source: run "make build", then bin/director demo`, p.file, director)
	}
	out := filepath.Join(into, p.file)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", out, p.source)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("demo: go build %s in %s: %w\n%s", p.source, root, err, said)
	}
	return out, nil
}

var moduleLine = regexp.MustCompile(`(?m)^module retake\s*$`)

// moduleRoot looks for our module from the working directory upwards.
func moduleRoot() (string, bool) {
	dir, err := os.Getwd()
	for err == nil {
		if mod, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil && moduleLine.Match(mod) {
			return dir, true
		}
		up := filepath.Dir(dir)
		if up == dir {
			break
		}
		dir = up
	}
	return "", false
}

// toolchain is the host's Go, as workers see it.
type toolchain struct {
	version string
	root    string
	mounts  []string // more folders that it needs, at the same path
}

func findToolchain(ctx context.Context) (toolchain, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT", "GOVERSION").Output()
	if errors.Is(err, exec.ErrNotFound) {
		return toolchain{}, errors.New("demo: no go program: the demo's repository is tested with the host's Go toolchain; install Go (https://go.dev/dl) and have it in PATH")
	}
	if err != nil {
		return toolchain{}, fmt.Errorf("demo: go env: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 2 || !filepath.IsAbs(lines[0]) {
		return toolchain{}, fmt.Errorf("demo: go env says %q, want GOROOT and GOVERSION", out)
	}
	t := toolchain{root: lines[0], version: lines[1]}
	t.mounts, err = linked(t.root)
	return t, err
}

// linked returns the folders outside of root that links in it lead to: distributions keep sources elsewhere.
func linked(root string) ([]string, error) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, fmt.Errorf("demo: GOROOT: %w", err)
	}
	var out []string
	for _, e := range entries {
		if e.Type()&os.ModeSymlink == 0 {
			continue
		}
		link := filepath.Join(root, e.Name())
		to, err := os.Readlink(link)
		if err != nil {
			return nil, fmt.Errorf("demo: GOROOT: %w", err)
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(root, to)
		}
		info, err := os.Stat(to)
		if err == nil && info.IsDir() && !strings.HasPrefix(to, root+"/") {
			out = append(out, to)
		}
	}
	return out, nil
}

// cacheDir makes the build cache for workers, which stays between runs. Without a home it is made for this run only.
func cacheDir(uid, gid int, temporary string) (cache, error) {
	var c cache
	base, err := os.UserCacheDir()
	if os.Getuid() == 0 {
		base, err = "/var/cache", nil // root's home is closed to workers that are plain processes
	}
	if c.stays = err == nil; !c.stays {
		base = temporary
	}
	c.dir = filepath.Join(base, "retake-demo", "go-build")
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return c, fmt.Errorf("demo: build cache: %w", err)
	}
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return c, fmt.Errorf("demo: build cache: %w", err)
	}
	c.cold = len(entries) == 0
	if os.Getuid() == 0 {
		if err := os.Chown(c.dir, uid, gid); err != nil {
			return c, fmt.Errorf("demo: build cache: %w", err)
		}
		return c, nil
	}
	probe, err := os.CreateTemp(c.dir, "probe-*")
	if err != nil {
		return c, fmt.Errorf("demo: build cache: %w; another user made it: remove it", err)
	}
	return c, errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// cache is Go's build cache for workers.
type cache struct {
	dir   string
	stays bool // for the next run
	cold  bool // nothing is in it yet
}

// workerUser is who workers run as: this user, or, since workers never run as root, uid 1000 instead of root.
func workerUser() (uid, gid int) {
	const ordinary = 1000
	uid, gid = os.Getuid(), os.Getgid()
	if uid == 0 {
		return ordinary, ordinary
	}
	if gid == 0 {
		gid = uid
	}
	return uid, gid
}
