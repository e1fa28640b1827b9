package testbed

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"retake/internal/config"
)

func TestDirectorEnv(t *testing.T) {
	got := DirectorEnv([]string{"HOME=/x", "GITHUB_TOKEN=somebody's", config.EnvPrefix +
		"GITHUB_API_URL=https://api.github.com/"}, "ours")
	want := []string{"HOME=/x", "GITHUB_TOKEN=ours", "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestProgramBesideIsTaken(t *testing.T) {
	dir := t.TempDir()
	beside := filepath.Join(dir, WorkerProgram.File)
	if err := os.WriteFile(beside, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	got, err := WorkerProgram.Find(t.Context(), dir, t.TempDir())
	if err != nil || got != beside {
		t.Errorf("got %s, %v, want %s", got, err, beside)
	}
}

func TestNoProgramAndNoSource(t *testing.T) {
	t.Chdir(t.TempDir())
	_, err := WorkerProgram.Find(t.Context(), t.TempDir(), t.TempDir())
	if err == nil || !strings.Contains(err.Error(), `run "make build"`) {
		t.Errorf("got %v, want the next step", err)
	}
}
