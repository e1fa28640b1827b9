package demo

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"retake/internal/testbed"
)

// built is the directory of the programs that the tests share.
var built struct {
	once sync.Once
	dir  string
	err  error
}

func TestMain(m *testing.M) {
	// Run more tests in parallel than there are processors, because demos mostly wait out the second between two
	// writes.
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(cleaner{m})
}

// cleaner runs the tests and then removes their shared files.
type cleaner struct{ *testing.M }

func (c cleaner) Run() int {
	defer func() { _ = os.RemoveAll(built.dir) }()
	return c.M.Run()
}

// needEngine skips a test without a Docker engine, or fails it where the engine is required.
func needEngine(t *testing.T) {
	t.Helper()
	needTime(t)
	e, err := testbed.OpenDocker(t.Context(), newFleet())
	if err == nil {
		e.Close()
		return
	}
	if os.Getenv("RETAKE_REQUIRE_DOCKER") == "1" {
		t.Fatal(err)
	}
	t.Skip("docker: " + err.Error())
}

// needTime skips a slow test in -short mode.
func needTime(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: this takes most of a minute or more")
	}
}

// programs builds the programs of "make build", once, and returns their directory.
func programs(t *testing.T) string {
	t.Helper()
	built.once.Do(func() { built.dir, built.err = build() })
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.dir
}

func build() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "programs-*"); err != nil {
		return "", err
	}
	for _, p := range []testbed.Program{testbed.DirectorProgram, testbed.WorkerProgram, agentProgram} {
		if _, err := p.Build(context.Background(), dir); err != nil {
			return dir, err
		}
	}
	return dir, nil
}

// buffer is a writer that can be read concurrently.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
	on map[string]func() // called once, when a certain text has been written
}

func (b *buffer) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.b.Write(data)
	for text, do := range b.on {
		if bytes.Contains(data, []byte(text)) {
			do()
		}
	}
	return len(data), nil
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// nothingLeft checks for remains of a run: in the engine, by label and name, and in the directory of temporary files.
func nothingLeft(t *testing.T, fleet string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if e, err := testbed.OpenDocker(ctx, fleet); err == nil { // otherwise the directory is absent
		defer e.Close()
		left, err := e.Left(ctx)
		if err != nil || len(left) > 0 {
			t.Errorf("left in the engine: %v (error %v)", left, err)
		}
		if info, err := e.API.ImageInspect(ctx, e.Image); err == nil {
			t.Errorf("left in the engine: image %v", info.RepoTags)
		}
	}
	if dirs, err := filepath.Glob(filepath.Join(os.TempDir(), "*"+fleet+"*")); err != nil || len(dirs) > 0 {
		t.Errorf("left in the temporary directory: %v (%v)", dirs, err)
	}
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(processes) == 0 {
		t.Fatalf("processes cannot be listed: %v", err)
	}
	for _, p := range processes {
		if args, _ := os.ReadFile(p); strings.Contains(string(args), fleet) { // empty for a process that has just ended
			t.Errorf("a process of the run is still alive: %q", args)
		}
	}
}
