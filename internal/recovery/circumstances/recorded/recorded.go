// Package recorded reads the circumstances of real failures for tests. The tests of internal/worker and of
// internal/director/internal/witness record them with -update.
package recorded

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"retake/internal/recovery/circumstances"
)

// Circumstances returns the recorded circumstances of the failure with this name. An empty name stands for unknown
// circumstances.
func Circumstances(t testing.TB, name string) (r circumstances.Record) {
	t.Helper()
	if name == "" {
		return r
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the test")
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, "internal/recovery/circumstances/testdata", name+".json"))
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}
