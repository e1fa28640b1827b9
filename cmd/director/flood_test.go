package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"retake/internal/output"
)

// TestLogsOfAFlood prints the stored part of a flood. Its cost in processor time does not depend on other load.
func TestLogsOfAFlood(t *testing.T) {
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, "my.toml"),
		[]byte("[github]\nrepositories = [\"acme/widgets\"]\n[director]\ndata_dir = \"data\"\n"), 0o600))
	store := output.Open(filepath.Join(dir, "data"), output.Options{Keep: output.Keep{Burst: 1 << 30}})
	defer store.Close()
	chunk := bytes.Repeat([]byte("a line of a flood, as programs print it\n"), 800)
	_, err := store.Finish(t.Context(), output.Recording{
		Issue: "acme/widgets#21", ID: "k3v9qx2m-1", N: 1,
		Source: func(_ context.Context, take func(output.Chunk)) error {
			for range (12 << 20) / len(chunk) { // more than the store keeps
				take(output.Chunk{At: time.Now(), Data: chunk})
			}
			return nil
		},
	})
	check(t, err)
	self, err := os.Executable()
	check(t, err)
	cmd := exec.CommandContext(t.Context(), self, "logs", "21", "-c", "my.toml")
	cmd.Dir, cmd.Env = dir, []string{asDirector + "=1", "PATH=" + os.Getenv("PATH")}
	said, err := cmd.Output()
	check(t, err)
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	t.Logf("%d lines, %d bytes in %s of processor time", bytes.Count(said, []byte("\n")), len(said), used)
	if bytes.Count(said, []byte("\n")) < 10_000 || !raced && used > time.Second {
		t.Errorf("%d lines in %s, want more than 10,000 within a second", bytes.Count(said, []byte("\n")), used)
	}
}
