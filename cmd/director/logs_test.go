package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"retake/internal/output"
)

// storedLogs lists commands with their exit codes and output.
var storedLogs = map[string]struct {
	exit int
	says string
}{
	"director logs 21 -c my.toml": {0, "== acme/widgets#21, attempt 2 (k3v9qx2m-2)\n" +
		"2026-11-21 12:00:01 -        | red tab\t50% 100% \uFFFDbidi\uFFFD\n2026-11-21 12:00:01 -        ! oops\n"},
	"director logs widgets#21 --attempt 1 --tail 1 -c my.toml": {
		0,
		"== acme/widgets#21, attempt 1 (k3v9qx2m-1)\n2026-11-21 12:00:00 -        ! oops\n",
	},
	"director logs 21 --json --tail 1 -c my.toml": {
		0,
		`{"at":"2026-11-21T12:00:01.000Z","attempt_id":"k3v9qx2m-2","attempt":2,"stream":"stderr","text":"oops"}` +
			"\n",
	},
	"director logs 21 --follow --tail 1 -c my.toml 2>/dev/null": {
		0,
		"== acme/widgets#21, attempt 2 (k3v9qx2m-2)\n2026-11-21 12:00:01 -        ! oops\n",
	},
	"director logs 21 --stage CODE -c my.toml": {
		1,
		"no output in stage CODE or any other stage",
	},
	"director logs 21 --attempt 3 -c my.toml": {1, "attempt 3"},
	"director logs 22 -c my.toml":             {1, "acme/widgets#22"},
	"director logs -c my.toml":                {2, "want one issue"},
	"director logs x -c my.toml":              {2, "is not an issue"},
	"director logs 21 --tail -1 -c my.toml":   {2, "must be at least 1"},
}

// TestLogsWithoutADirector prints stored files, without control sequences.
func TestLogsWithoutADirector(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "my.toml"),
		[]byte("[github]\nrepositories = [\"acme/widgets\"]\n[director]\ndata_dir = \"data\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	store := output.Open(filepath.Join(dir, "data"), output.Options{})
	defer store.Close()
	for n, id := range []string{"k3v9qx2m-1", "k3v9qx2m-2"} {
		_, err := store.Finish(t.Context(), output.Recording{
			Issue: "acme/widgets#21", ID: id, N: n + 1,
			Source: func(_ context.Context, take func(output.Chunk)) error {
				at := time.Date(2026, 11, 21, 12, 0, n, 0, time.UTC)
				take(output.Chunk{
					At: at,
					Data: []byte("\x1b[31mred\x1b[0m \x1b]52;c;eA==\x07\x1b]0;t\x1b\\tab\t50%\r100% " +
						"\u202ebidi\u009b\n"),
				})
				take(output.Chunk{At: at, Stderr: true, Data: []byte("oops\n")})
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for command, want := range storedLogs {
		out, exit := shell(t, dir, command)
		if whole := want.exit == 0 && strings.HasSuffix(want.says, "\n"); exit != want.exit ||
			!strings.Contains(out, want.says) || whole && out != want.says {
			t.Errorf("%s: exit %d, %q; want %d, %q", command, exit, out, want.exit, want.says)
		}
	}
}
