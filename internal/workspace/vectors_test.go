package workspace

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

type vector struct {
	ID       string          `json:"id"`
	Kind     string          `json:"kind"`
	Input    json.RawMessage `json:"input"`
	Expected json.RawMessage `json:"expected"`
}

// errLeftOut marks a vector about something that we don't have; the text says why.
type errLeftOut struct{ why string }

func (e errLeftOut) Error() string { return e.why }

// vectorKinds are the kinds that are about checkouts.
var vectorKinds = map[string]func(*testing.T, vector) error{
	"sync_policy": checkSyncPolicy,
	"state_file":  checkStateFile,
	"safe_point": func(*testing.T, vector) error {
		return errLeftOut{"a worker's checkout has no git in it, and the director's own git is never caught in the middle: what a crash " +
			"interrupts is finished before anything else happens. Programs and bases change between attempts only"}
	},
}

// TestVectors checks what the founding harness says about checkouts.
func TestVectors(t *testing.T) {
	dir := os.Getenv("RETAKE_TESTDATA")
	if dir == "" {
		t.Skip("RETAKE_TESTDATA is not set")
	}
	names, err := filepath.Glob(filepath.Join(dir, "vectors", "*.json"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no vectors in %s: %v", dir, err)
	}
	held := 0
	for _, name := range names {
		var file struct{ Vectors []json.RawMessage }
		data, err := os.ReadFile(name)
		if err == nil {
			err = json.Unmarshal(data, &file)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, raw := range file.Vectors {
			var v vector
			if json.Unmarshal(raw, &v) != nil || vectorKinds[v.Kind] == nil {
				continue // another package's
			}
			err := vectorKinds[v.Kind](t, v)
			switch out, ok := err.(errLeftOut); { //nolint:errorlint // never wrapped
			case ok:
				t.Logf("%s left out: %s", v.ID, out.why)
			case err != nil:
				t.Errorf("%s: %s: %v", v.ID, raw, err)
			default:
				held++
			}
		}
	}
	t.Logf("%d held", held)
	if held == 0 {
		t.Error("no vector was checked")
	}
}

func checkSyncPolicy(_ *testing.T, v vector) error {
	var in struct {
		Commits int   `json:"commits_behind"`
		Seconds int64 `json:"seconds_behind"`
		Catalog *bool `json:"catalog_hash_match"`
	}
	var want struct {
		Reason *string `json:"sync_required_reason"`
	}
	if err := unmarshal(v, &in, &want); err != nil {
		return err
	}
	if in.Catalog != nil && !*in.Catalog {
		return errLeftOut{"the catalog belongs to the shared memory of agents, which is not ours"}
	}
	got := SyncPolicy{MaxCommits: 20, MaxBehind: day}.Reason(in.Commits, time.Duration(in.Seconds)*time.Second)
	if want.Reason == nil {
		want.Reason = new(string)
	}
	if got != *want.Reason {
		return fmt.Errorf("got %q", got)
	}
	return nil
}

// checkStateFile reads what shall happen from the words of the expectation, as far as they are known.
func checkStateFile(t *testing.T, v vector) error {
	in, want := map[string]any{}, struct{ Action string }{}
	if err := unmarshal(v, &in, &want); err != nil {
		return err
	}
	logged, logs := observer.New(zap.WarnLevel)
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	w := open(t, Options{Log: zap.New(logged)})
	c := checkout(t, w, o, nonceB)
	path := filepath.Join(c.Path, retakeDir, stateFile)
	switch {
	case in["exists"] == false && len(in) == 1:
	case in["malformed"] == true || in["valid_json"] == false || in["valid"] == false:
		put(t, c.Path, retakeDir+"/"+stateFile, `{"schema_version":`)
	default:
		return errLeftOut{"nothing here reads such an input"}
	}
	if _, ok, err := w.ReadState(nonceB); ok || err != nil {
		return fmt.Errorf("read %t, %w, want it to be missing", ok, err)
	}
	if _, there := in["exists"]; there {
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("made before anybody wrote it")
		}
	} else if logs.FilterMessageSnippet("malformed").Len() != 1 {
		return fmt.Errorf("the log does not say that it is malformed")
	}
	if err := w.WriteState(nonceB, State{UpdatedAt: authored}); err != nil {
		return err
	}
	data, err := os.ReadFile(path)
	for _, text := range []string{`"schema_version": "` + StateSchema, `"created_at": "2026-11-21T10:00:00Z"`, `"updated_at": "2026-11-21T10:00:00Z"`} {
		if err != nil || !strings.Contains(string(data), text) {
			return fmt.Errorf("%s, %w: no %s in it", data, err, text)
		}
	}
	return nil
}

func unmarshal(v vector, input, expected any) error {
	if err := json.Unmarshal(v.Input, input); err != nil {
		return err
	}
	return json.Unmarshal(v.Expected, expected)
}
