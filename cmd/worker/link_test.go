package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// maxBytes bounds the worker, which is copied into every container.
const maxBytes = 9_900_000

// releaseFlags are copied from deploy/images.sh. The Makefile has the first in GOFLAGS.
const releaseFlags = "build -trimpath -ldflags '-s -w'"

func TestWorkerLinksNoServer(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, path := range strings.Fields(string(out)) {
		if strings.Contains(path, "nats-server") || path == "retake/internal/bus/server" ||
			strings.Contains(path, "gitleaks") {
			t.Errorf("the worker links %s", path)
		}
	}
}

func TestWorkerIsSmall(t *testing.T) {
	for _, name := range []string{"Makefile", "deploy/images.sh"} {
		text, err := os.ReadFile(filepath.Join("../..", name))
		flags := []string{"-trimpath", "-ldflags '-s -w'"}
		lacks := func(flag string) bool { return !strings.Contains(string(text), flag) }
		if err != nil || slices.ContainsFunc(flags, lacks) {
			t.Errorf("%s does not build with %s: %v", name, releaseFlags, err)
		}
	}
	if testing.Short() {
		t.Skip("-short: the worker is not built, so its size is not checked")
	}
	file := filepath.Join(t.TempDir(), "worker")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", file, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as in a release, even under the race detector
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the worker has %d bytes (go %s)", info.Size(), releaseFlags)
	if info.Size() > maxBytes {
		t.Errorf("the worker has %d bytes, want at most %d (go %s)", info.Size(), maxBytes, releaseFlags)
	}
}
