package bus

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"retake/internal/bus/server"
)

// TestDamagedFilesOfTheBus checks that the bus opens although a power cut emptied one of its files. The file is kept
// under another name and mentioned in the log, and revocations persist because the server also stores them.
func TestDamagedFilesOfTheBus(t *testing.T) {
	t.Parallel()
	for _, name := range []string{fileAttempts, oldFileLongest, oldFileWorkers, fileWorkers} {
		for _, content := range []string{"", "short"} {
			t.Run(name+"/"+content, func(t *testing.T) {
				dir := t.TempDir()
				b := openBus(t, Options{Server: startServer(t, server.Options{Dir: dir})})
				if err := b.Revoke(ctxFor(t), worker); err != nil {
					t.Fatal(err)
				}
				user, _, err := b.workers.user(worker)
				if err != nil {
					t.Fatal(err)
				}
				closeBus(t, b)
				spoil(t, filepath.Join(dir, name), content)
				core, logs := observer.New(zapcore.WarnLevel)
				b = openBus(t, Options{Server: startServer(t, server.Options{Dir: dir}), Log: zap.New(core)})
				if aside, _ := filepath.Glob(filepath.Join(dir, name+".damaged-*")); len(aside) != 1 {
					t.Errorf("set aside: %q", aside)
				}
				said := false
				for _, l := range logs.All() {
					text, _ := l.ContextMap()["error"].(string)
					said = said || strings.Contains(text, name+".damaged-")
				}
				if !said {
					t.Errorf("the log does not name it: %+v", logs.All())
				}
				b.workers.mu.Lock()
				defer b.workers.mu.Unlock()
				if b.workers.known.Revoked[user] == 0 {
					t.Error("a revoked worker is no longer revoked")
				}
				if name == oldFileLongest && b.workers.known.Longest < unknownLife {
					t.Errorf("revocations last %s", b.workers.known.Longest)
				}
			})
		}
	}
}

// TestDamagedAccountsOfTheServer checks that the server's copies are rewritten at each start.
func TestDamagedAccountsOfTheServer(t *testing.T) {
	dir := t.TempDir()
	b := openBus(t, Options{Server: startServer(t, server.Options{Dir: dir})})
	if err := b.Revoke(ctxFor(t), worker); err != nil {
		t.Fatal(err)
	}
	closeBus(t, b)
	files, err := filepath.Glob(filepath.Join(dir, "accounts", "*.jwt"))
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		spoil(t, f, "")
	}
	b = openBus(t, Options{Server: startServer(t, server.Options{Dir: dir})})
	if _, err := b.Authorize(ctxFor(t), "other-1"); err != nil {
		t.Error(err)
	}
}

func spoil(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
