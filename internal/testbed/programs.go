package testbed

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"retake/internal/testbed/program"
)

// Program is a program of this repository.
type Program struct{ File, Source string }

// The programs that a director needs.
var (
	DirectorProgram = Program{"director", "./cmd/director"}
	WorkerProgram   = Program{"worker", "./cmd/worker"}
)

// Find returns the path of a static binary. It prefers the binary in the first directory, where make build puts all
// programs. Otherwise it builds the binary into the second directory, which works only inside the module.
func (p Program) Find(ctx context.Context, beside, into string) (string, error) {
	found := filepath.Join(beside, p.File)
	if info, err := os.Stat(found); err == nil && info.Mode().IsRegular() {
		return found, nil
	}
	return p.Build(ctx, into)
}

// Build builds a static binary into a directory.
func (p Program) Build(ctx context.Context, into string) (string, error) {
	root, ok := moduleRoot()
	if !ok {
		return "", fmt.Errorf(`testbed: %s is missing, and this is not Retake's source tree: run "make build"`, p.File)
	}
	out := filepath.Join(into, p.File)
	return out, program.Build(ctx, root, p.Source, out)
}

var moduleLine = regexp.MustCompile(`(?m)^module retake\s*$`)

// moduleRoot searches the working directory and its parents for the module root.
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

// Git runs git in a bare repository, without this machine's configuration.
func Git(bare string, args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"--git-dir", bare}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_COUNT=1",
		"GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*")
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("testbed: git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}
