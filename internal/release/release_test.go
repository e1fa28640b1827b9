package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// TestTheSameCommitGivesTheSameRelease builds the worker in another directory and at another time. make release-check
// builds all programs, without a common cache.
func TestTheSameCommitGivesTheSameRelease(t *testing.T) {
	if testing.Short() {
		t.Skip("-short skips builds")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, ".git")); err != nil {
		t.Skip("a release requires a git checkout")
	}
	var before map[string]string
	for _, folder := range []string{"a", "another/and/longer"} {
		dir := filepath.Join(t.TempDir(), folder)
		if out, err := exec.Command("git", "clone", "--quiet", root, dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for _, name := range besides { // from the working tree, which may have changes
			data, err := os.ReadFile(filepath.Join(root, name))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r := release{root: dir, out: filepath.Join(dir, "dist"), programs: []string{"worker"}, archs: []string{"amd64"}}
		if err := r.make(); err != nil {
			t.Fatal(err)
		}
		made := read(t, r.out)
		if before == nil {
			before = made
			check(t, &r, made)
		}
		for name := range before {
			if made[name] != before[name] {
				t.Errorf("%s differs", name)
			}
		}
		if len(made) != 3 || len(before) != 3 {
			t.Errorf("%d files, then %d", len(before), len(made))
		}
	}
}

// check verifies the result.
func check(t *testing.T, r *release, made map[string]string) {
	name := "retake-" + r.version + "-linux-amd64"
	if sums := made["SHA256SUMS"]; strings.Count(sums, "\n") != 2 || !strings.Contains(sums, "  "+name+".tar.gz\n") ||
		!strings.Contains(sums, "  "+name+".cdx.json\n") {
		t.Errorf("SHA256SUMS is %q", sums)
	}
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(strings.NewReader(made[name+".cdx.json"]), cdx.BOMFileFormatJSON).
		Decode(&bom); err != nil {
		t.Fatal(err)
	}
	has := func(path string) bool {
		return slices.ContainsFunc(*bom.Components, func(c cdx.Component) bool {
			return c.Name == path &&
				c.Version != "" && c.PackageURL != ""
		})
	}
	if !has("std") || !has("github.com/nats-io/nats.go") || has("github.com/nats-io/nats-server/v2") {
		t.Errorf("contents: %+v", *bom.Components)
	}
	z, err := gzip.NewReader(strings.NewReader(made[name+".tar.gz"]))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for tr := tar.NewReader(z); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if !h.ModTime.Equal(r.at) || h.Uid != 0 || h.Uname != "" {
			t.Errorf("%s: %+v", h.Name, h)
		}
		if files[strings.TrimPrefix(h.Name, name+"/")], err = io.ReadAll(tr); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range append([]string{"worker", "THIRD-PARTY-NOTICES.txt"}, besides...) {
		if len(files[want]) == 0 {
			t.Errorf("%s is not packed", want)
		}
	}
	if notices := files["THIRD-PARTY-NOTICES.txt"]; !bytes.Contains(notices, []byte("github.com/nats-io/nats.go ")) ||
		!bytes.Contains(notices, []byte("Go's standard library")) ||
		!bytes.Contains(notices, []byte("Redistribution and use in source and binary forms")) ||
		!bytes.Contains(notices, []byte("Apache License")) || bytes.Contains(notices, []byte("nats-server/v2 ")) {
		t.Errorf("notices of the worker: %.2000s", notices)
	}
	if bytes.Contains(files["worker"], []byte(r.root)) {
		t.Error("the worker contains the path of its build directory")
	}
}

func read(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(data)
	}
	return files
}

// TestArchivesDependOnFilesAlone: the order of the files has no effect.
func TestArchivesDependOnFilesAlone(t *testing.T) {
	files := []file{{"b", 0o755, []byte("x")}, {"a/c", 0o644, []byte("y")}}
	at := time.Unix(1_700_000_000, 0)
	one, err := pack("f", at, files)
	slices.Reverse(files)
	two, again := pack("f", at.UTC(), files)
	if err != nil || again != nil || !bytes.Equal(one, two) {
		t.Errorf("%v, %v, the same: %v", err, again, bytes.Equal(one, two))
	}
	other, err := pack("f", at.Add(time.Hour), files)
	if err != nil || bytes.Equal(one, other) {
		t.Errorf("%v: the timestamp has no effect", err)
	}
}
