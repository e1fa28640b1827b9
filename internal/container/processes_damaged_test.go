package container_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"retake/internal/container"
)

// TestDamagedProcessFiles: if any file of an attempt is empty after a power cut, the next director starts, names the
// file, and can end the attempt.
func TestDamagedProcessFiles(t *testing.T) {
	for _, name := range []string{"attempt.json", "started.json", "ended.json"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			folder := filepath.Join(dir, "abcdefgh-1")
			if err := os.Mkdir(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			record := `{"attempt_id":"abcdefgh-1","fleet":"f","task":"acme/widgets#1"}`
			if err := os.WriteFile(filepath.Join(folder, "attempt.json"), []byte(record), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			core, logs := observer.New(zapcore.WarnLevel)
			p, err := container.OpenProcesses(context.Background(),
				container.Options{Fleet: "f", Dir: dir, Log: zap.New(core)})
			if err != nil {
				t.Fatal(err)
			}
			list, err := p.List(context.Background())
			if err != nil || !slices.ContainsFunc(list,
				func(s container.Status) bool { return s.AttemptID == "abcdefgh-1" }) {
				t.Errorf("listed: %+v, %v", list, err)
			}
			if aside, _ := filepath.Glob(filepath.Join(folder, name+".damaged-*")); len(aside) != 1 {
				t.Errorf("damaged files set aside: %q", aside)
			}
			if all := logs.All(); len(all) != 1 || !strings.Contains(all[0].ContextMap()["error"].(string),
				name+".damaged-") {
				t.Errorf("log: %+v", all)
			}
			if _, err := p.Stop(context.Background(), "abcdefgh-1", 0, nil); err != nil {
				t.Error(err)
			}
			if list, err := p.List(context.Background()); err != nil || len(list) > 0 {
				t.Errorf("after Stop: %+v, %v", list, err)
			}
		})
	}
}
