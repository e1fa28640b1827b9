package workspace

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// statePlace returns a checkout, and the log of writes to its STATE.json.
func statePlace(t *testing.T) (w *Workspaces, dir string, logs *observer.ObservedLogs) {
	logged, logs := observer.New(zap.WarnLevel)
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	w = open(t, Options{Log: zap.New(logged)})
	return w, checkout(t, w, o, nonceB).Path, logs
}

// stateIn reads STATE.json as any reader of the checkout would. ok is false if the file is missing or malformed.
func stateIn(t *testing.T, dir string) (s State, ok bool) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, retakeDir, stateFile))
	return s, err == nil && json.Unmarshal(data, &s) == nil && s.SchemaVersion == StateSchema
}

func wantTimesInUTC(t *testing.T, dir string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, retakeDir, stateFile))
	var raw struct {
		SchemaVersion string `json:"schema_version"`
		UpdatedAt     string `json:"updated_at"`
		LastSeen      struct {
			At string `json:"issue_updated_at"`
		} `json:"last_seen"`
		Worker map[string]any
	}
	if err := errors.Join(err, json.Unmarshal(data, &raw)); err != nil {
		t.Fatal(err)
	}
	if raw.UpdatedAt != "2026-11-21T10:00:00.001Z" || raw.LastSeen.At != "2026-11-21T10:00:00Z" ||
		raw.Worker["branch_name"] != branch {
		t.Errorf("%s", data)
	}
}

func TestState(t *testing.T) {
	t.Parallel()
	w, dir, logs := statePlace(t)
	if _, ok := stateIn(t, dir); ok {
		t.Error("the file exists before the first write")
	}
	zone := time.FixedZone("x", 3600)
	s := State{
		UpdatedAt: authored.Add(1234567 * time.Nanosecond).In(zone),
		LastSeen:  LastSeen{BaseSHA: "b", MainSHA: "h", IssueUpdatedAt: authored.In(zone)},
		Director:  DirectorState{RunID: "run_1", Phase: "MONITOR"},
		Worker: &WorkerState{
			WorkerID: nonceB + "-1", AttemptID: nonceB + "-1", Issue: "acme/widgets#21", Attempt: 1,
			State: "Running", Stage: "CODE", BranchName: branch, LastErrorID: "e",
		},
	}
	if err := w.WriteState(nonceB, s); err != nil {
		t.Fatal(err)
	}
	later := s
	later.UpdatedAt, later.Worker = authored.Add(time.Hour), nil
	if err := w.WriteState(nonceB, later); err != nil {
		t.Fatal(err)
	}
	got, ok := stateIn(t, dir)
	if !ok || got.SchemaVersion != StateSchema || got.Worker != nil || got.LastSeen.MainSHA != "h" ||
		got.Director != s.Director ||
		!got.CreatedAt.Equal(authored.Add(time.Millisecond)) || !got.UpdatedAt.Equal(later.UpdatedAt) {
		t.Errorf("%+v, %t", got, ok)
	}
	if err := w.WriteState(nonceB, s); err != nil {
		t.Fatal(err)
	}
	wantTimesInUTC(t, dir)
	if logs.Len() != 0 {
		t.Errorf("logged %v", logs.All())
	}
	entries, err := os.ReadDir(filepath.Join(dir, retakeDir))
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v: want only one file", entries, err)
	}
	if err := os.RemoveAll(filepath.Join(dir, retakeDir)); err != nil {
		t.Fatal(err)
	}
	if _, ok := stateIn(t, dir); ok {
		t.Error("read after it was deleted")
	}
	if err := w.WriteState(nonceB, s); err != nil {
		t.Errorf("after the folder was deleted: %v", err)
	}
}

// TestMalformedStateIsMissing: the reason is logged, and a new file replaces it.
func TestMalformedStateIsMissing(t *testing.T) {
	t.Parallel()
	w, dir, logs := statePlace(t)
	for name, c := range map[string]struct{ text, why string }{
		"empty":      {"", "unexpected end"},
		"torn":       {`{"schema_version": "retake-sta`, "unexpected end"},
		"not object": {`[1]`, "cannot unmarshal"},
		"no version": {`{"created_at": "2026-11-21T10:00:00Z"}`, `schema_version "", want`},
		"newer":      {`{"schema_version": "retake-state/v2"}`, "retake-state/v2"},
		"bad time":   {`{"schema_version": "retake-state/v1", "created_at": "yesterday"}`, "yesterday"},
		"huge":       {strings.Repeat(" ", stateBytes) + `{"schema_version": "retake-state/v1"}`, "unexpected end"},
	} {
		put(t, dir, ".retake/STATE.json", c.text)
		if err := w.WriteState(nonceB, State{UpdatedAt: authored}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		logged := logs.TakeAll()
		if len(logged) != 1 || !strings.Contains(logged[0].ContextMap()["reason"].(string), c.why) {
			t.Errorf("%s: logged %v; want %q", name, logged, c.why)
		}
		if s, ok := stateIn(t, dir); !ok || !s.CreatedAt.Equal(authored) {
			t.Errorf("%s: %+v, %t", name, s, ok)
		}
	}
}

func TestStateOfAnotherWriter(t *testing.T) {
	t.Parallel()
	w, dir, _ := statePlace(t)
	put(t, dir, ".retake/STATE.json",
		`{"schema_version": "retake-state/v1", "future": {"x": [1]}, "created_at": "2026-01-02T03:04:05+02:00"}`)
	if err := w.WriteState(nonceB, State{UpdatedAt: authored}); err != nil {
		t.Fatal(err)
	}
	if s, ok := stateIn(t, dir); !ok || !s.CreatedAt.Equal(time.Date(2026, 1, 2, 1, 4, 5, 0, time.UTC)) {
		t.Errorf("%+v, %t", s, ok)
	}
}

// TestStateFollowsNothing: WriteState never follows an agent's links.
func TestStateFollowsNothing(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	victim := put(t, outside, stateFile, "untouched")
	for name, plant := range map[string]func(t *testing.T, retake string) error{
		"link to a file": func(_ *testing.T, retake string) error {
			return os.Symlink(victim,
				filepath.Join(retake, stateFile))
		},
		"link within": func(t *testing.T, retake string) error {
			put(t, filepath.Dir(retake), "inside.json", `{"schema_version": "retake-state/v1"}`)
			return os.Symlink("../inside.json", filepath.Join(retake, stateFile))
		},
		"folder": func(_ *testing.T, retake string) error {
			return os.MkdirAll(filepath.Join(retake, stateFile, "x"), 0o755)
		},
		"pipe": func(_ *testing.T, retake string) error {
			return syscall.Mkfifo(filepath.Join(retake, stateFile), 0o600)
		},
		"folder is a link out": func(_ *testing.T, retake string) error {
			return errors.Join(os.RemoveAll(retake), os.Symlink(outside, retake))
		},
		"folder is a link within": func(t *testing.T, retake string) error {
			put(t, filepath.Dir(retake), "src/a", "x")
			return errors.Join(os.RemoveAll(retake), os.Symlink("src", retake))
		},
		"folder is a file": func(_ *testing.T, retake string) error {
			return errors.Join(os.RemoveAll(retake), os.WriteFile(retake, nil, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, dir, _ := statePlace(t)
			if err := plant(t, filepath.Join(dir, retakeDir)); err != nil {
				t.Fatal(err)
			}
			if err := w.WriteState(nonceB, State{UpdatedAt: authored}); err != nil {
				t.Fatal(err)
			}
			if _, ok := stateIn(t, dir); !ok {
				t.Error("STATE.json is missing after the write")
			}
			if info, err := os.Lstat(filepath.Join(dir, retakeDir, stateFile)); err != nil || !info.Mode().IsRegular() {
				t.Errorf("%v, %v", info, err)
			}
			if got, _ := os.ReadFile(victim); string(got) != "untouched" {
				t.Errorf("the file outside: %s", got)
			}
			entries, _ := os.ReadDir(filepath.Join(dir, "src"))
			for _, e := range entries {
				if e.Name() != "a" && strings.Contains(e.Name(), stateFile) {
					t.Errorf("WriteState wrote src/%s", e.Name())
				}
			}
		})
	}
}

func TestStateWithoutACheckout(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	if err := w.WriteState(nonceB, State{}); !errors.Is(err, ErrNoCheckout) {
		t.Error(err)
	}
	wantKind(t, w.WriteState("../x", State{}), Permanent, "claim nonce")
}

// TestStateIsAlwaysWhole: concurrent readers always see a complete file.
func TestStateIsAlwaysWhole(t *testing.T) {
	t.Parallel()
	w, dir, logs := statePlace(t)
	if err := w.WriteState(nonceB, State{UpdatedAt: authored}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				if err := w.WriteState(nonceB, State{
					UpdatedAt: authored,
					Director:  DirectorState{RunID: strings.Repeat("x", 2000)},
				}); err != nil {
					t.Error(err)
				}
				if s, ok := stateIn(t, dir); !ok {
					t.Errorf("got %+v", s)
				}
			}
		})
	}
	wg.Wait()
	if logs.Len() != 0 {
		t.Errorf("logged %v", logs.All())
	}
}

// TestStateIsNotDelivered: deliveries and merges exclude the file.
func TestStateIsNotDelivered(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n", ".gitignore": "!.retake/\n"})
	w := open(t, Options{})
	dir := checkout(t, w, o, nonceB).Path
	put(t, dir, "b.txt", "x")
	if err := w.WriteState(nonceB, State{UpdatedAt: authored}); err != nil {
		t.Fatal(err)
	}
	o.change(t, map[string]string{"c.txt": "x"})
	mustSync(t, w, o)
	deliver(t, w, o, nonceB)
	if got := o.files(t, branch); got != ".gitignore\na.txt\nb.txt\nc.txt" {
		t.Errorf("%q", got)
	}
	if _, ok := stateIn(t, dir); !ok {
		t.Error("the merge removed it")
	}
}
