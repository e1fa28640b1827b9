package workspace

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"retake/internal/testfiles"
)

// errLeftOut marks a vector about a feature that Retake lacks. The error's text gives the reason.
type errLeftOut struct{ why string }

func (e errLeftOut) Error() string { return e.why }

// vectorKinds has the checks for the kinds of vectors about checkouts.
var vectorKinds = map[string]func(*testing.T, testfiles.Vector) error{
	"sync_policy": checkSyncPolicy,
	"state_file":  checkStateFile,
	"safe_point": func(*testing.T, testfiles.Vector) error {
		return errLeftOut{"a worker's checkout does not contain a repository. The director finishes an interrupted " +
			"git operation before the next one. Programs and bases change only between attempts"}
	},
}

// TestVectors checks the vectors of the founding harness about checkouts.
func TestVectors(t *testing.T) {
	t.Parallel()
	held := 0
	for _, v := range testfiles.Vectors(t, slices.Collect(maps.Keys(vectorKinds))...) {
		testfiles.Try(t, v.ID, func(t *testing.T) {
			err := vectorKinds[v.Kind](t, v)
			switch out, ok := err.(errLeftOut); { //nolint:errorlint // never wrapped
			case ok:
				t.Logf("left out: %s", out.why)
			case err != nil:
				t.Errorf("%s, expected %s: %v", v.Input, v.Expected, err)
			default:
				held++
			}
		})
	}
	t.Logf("%d held", held)
	if held == 0 {
		t.Error("no vector was checked")
	}
}

func checkSyncPolicy(_ *testing.T, v testfiles.Vector) error {
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
		return errLeftOut{"the catalog belongs to the shared memory of agents, which Retake lacks"}
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

// checkStateFile checks the known words of the expectation.
func checkStateFile(t *testing.T, v testfiles.Vector) error {
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
		return errLeftOut{"Retake does not read such an input"}
	}
	_, missing := in["exists"]
	if _, err := os.Lstat(path); missing && err == nil {
		return fmt.Errorf("the file exists before the first write")
	}
	if err := w.WriteState(nonceB, State{UpdatedAt: authored}); err != nil {
		return err
	}
	if warned := logs.FilterMessageSnippet("malformed").Len() == 1; warned == missing {
		return fmt.Errorf("the log calls it malformed: %v", warned)
	}
	data, err := os.ReadFile(path)
	for _, text := range []string{
		`"schema_version": "` + StateSchema, `"created_at": "2026-11-21T10:00:00Z"`,
		`"updated_at": "2026-11-21T10:00:00Z"`,
	} {
		if err != nil || !strings.Contains(string(data), text) {
			return fmt.Errorf("%s, %w: no %s in it", data, err, text)
		}
	}
	return nil
}

func unmarshal(v testfiles.Vector, input, expected any) error {
	if err := json.Unmarshal(v.Input, input); err != nil {
		return err
	}
	return json.Unmarshal(v.Expected, expected)
}
