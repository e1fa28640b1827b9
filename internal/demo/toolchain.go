package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"retake/internal/testbed"
)

// agentProgram is the coding agent.
var agentProgram = testbed.Program{File: "demo-agent", Source: "./internal/demo/agent"}

// toolchain is the host's Go installation, as workers see it.
type toolchain struct {
	version string
	root    string
	mounts  []string // more directories that it needs, mounted at the same paths
}

func findToolchain(ctx context.Context) (toolchain, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT", "GOVERSION").Output()
	if errors.Is(err, exec.ErrNotFound) {
		return toolchain{}, errors.New("demo: cannot test the demo's repository without go: install the Go toolchain " +
			"(https://go.dev/dl) and add it to PATH")
	}
	if err != nil {
		return toolchain{}, fmt.Errorf("demo: go env: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 2 || !filepath.IsAbs(lines[0]) {
		return toolchain{}, fmt.Errorf("demo: go env printed %q, want GOROOT and GOVERSION", out)
	}
	t := toolchain{root: lines[0], version: lines[1]}
	t.mounts, err = linkedFolders(t.root)
	return t, err
}

// linkedFolders returns the directories outside root to which symbolic links in root point, because some distributions
// keep the sources elsewhere.
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
