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

// program is one of ours that the demo runs.
type program struct{ file, source string }

var (
	directorProgram = program{"director", "./cmd/director"}
	workerProgram   = program{"worker", "./cmd/worker"}
	agentProgram    = program{"demo-agent", "./internal/demo/agent"}
)

// binary returns a static binary: the one in the folder beside (make build puts all of them in one), else one
// that is built from the module's source, when the demo runs inside it.
func binary(ctx context.Context, p program, beside, into string) (string, error) {
	found := filepath.Join(beside, p.file)
	if info, err := os.Stat(found); err == nil && info.Mode().IsRegular() {
		return found, nil
	}
	root, ok := moduleRoot()
	if !ok {
		return "", fmt.Errorf(`demo: no %s in %s, and this is not Retake's source: run "make build", then bin/demo`,
			p.file, beside)
	}
	out := filepath.Join(into, p.file)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, p.source)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("demo: go build %s in %s: %w\n%s", p.source, root, err, output)
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
		return toolchain{}, errors.New("demo: no go program: the demo's repository is tested with the host's Go " +
			"toolchain; install Go (https://go.dev/dl) and have it in PATH")
	}
	if err != nil {
		return toolchain{}, fmt.Errorf("demo: go env: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 2 || !filepath.IsAbs(lines[0]) {
		return toolchain{}, fmt.Errorf("demo: go env says %q, want GOROOT and GOVERSION", out)
	}
	t := toolchain{root: lines[0], version: lines[1]}
	t.mounts, err = linkedFolders(t.root)
	return t, err
}

// linkedFolders returns the folders outside of root that links in it lead to: distributions keep sources elsewhere.
func linkedFolders(root string) ([]string, error) {
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
