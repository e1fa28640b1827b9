package safefile

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLoadSetsAsideWhatIsDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.json")
	var v struct{ A int }
	load := func() error { return Load(path, func(data []byte) error { return json.Unmarshal(data, &v) }) }
	if _, ok := errors.AsType[*Damaged](load()); ok || !errors.Is(load(), fs.ErrNotExist) {
		t.Errorf("nothing there: %v", load())
	}
	if err := Write(path, 0o600, []byte(`{"A":7}`)); err != nil || load() != nil || v.A != 7 {
		t.Errorf("%v, %+v", err, v)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := load()
	damaged, ok := errors.AsType[*Damaged](err)
	if !ok || !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("an empty file: %v", err)
	}
	if info, err := os.Stat(damaged.Aside); err != nil || info.Size() != 0 ||
		!strings.HasPrefix(damaged.Aside, path+".damaged-") {
		t.Errorf("set aside as %s: %v", damaged.Aside, err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the damaged file still exists: %v", err)
	}
	for _, part := range []string{path, damaged.Aside, "unexpected end"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q lacks %q", err, part)
		}
	}
}

func TestMkdirAllAndRename(t *testing.T) {
	dir := t.TempDir()
	deep := filepath.Join(dir, "a", "b", "c")
	for range 2 {
		if err := MkdirAll(deep, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(Write(filepath.Join(deep, "f"), 0o600, nil),
		Rename(filepath.Join(deep, "f"), filepath.Join(dir, "g"))); err != nil {
		t.Error(err)
	}
	onlyThese(t, filepath.Join(dir, "g"), "a", "g")
	if err := MkdirAll(filepath.Join(dir, "g", "h"), 0o700); err == nil {
		t.Error("a directory in a file")
	}
	if err := Rename(filepath.Join(dir, "none"), filepath.Join(dir, "x")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
