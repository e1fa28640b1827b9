package testfiles

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite testdata/fields.txt")

const own = "testdata"

// TestNothingUnknown reports one error for each unknown part of the test data.
func TestNothingUnknown(t *testing.T) {
	f := data(t)
	for _, p := range f.problems {
		t.Error(p)
	}
	t.Logf("%d vectors, %d lines of output, %d webhooks", len(f.vectors), len(f.lines), len(f.webhooks))
}

// TestFields checks that the list of fields matches the vectors in testdata. With -update, it writes the list.
func TestFields(t *testing.T) {
	path := filepath.Join(own, fieldsFile)
	seeds, _ := filepath.Glob(own + "/vectors/*.json")
	f, fields := &files{}, map[string][]string{}
	for _, seed := range seeds {
		for _, v := range f.decode(seed) {
			fields[v.kind()] = append(fields[v.kind()], v.shape()...)
		}
	}
	var b strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(fields)) {
		slices.Sort(fields[kind])
		fmt.Fprintf(&b, "%s\n  %s\n", kind, strings.Join(slices.Compact(fields[kind]), "\n  "))
	}
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if is, _ := os.ReadFile(path); string(is) != b.String() || len(f.problems) > 0 {
		t.Errorf("%s differs from the vectors; write it with go test ./internal/testfiles -update (%q)", path,
			f.problems)
	}
}

// put writes a file below a directory.
func put(t *testing.T, dir, path, text string) {
	t.Helper()
	path = filepath.Join(dir, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

var readerMeetsTheUnknownCases = []string{
	"vectors/003.json: unknown field \"mood\" in a vector",
	"vectors/003.json: vector 10 is unreadable (json: cannot unmarshal number into Go struct field Vector.id of " +
		"type string)",
	"vectors/003.json: vector 11 is unreadable (json: cannot unmarshal string into Go value of type " +
		"testfiles.Vector)",
	"vectors of kind 003 exit_code: unknown shape, input.has_failures is string",
	"vectors of kind 003 exit_code: unknown field input.weather",
	"vectors of kind 003 exit_code: unknown shape, expected is array",
	"vectors/003.json: unknown vector kind: 003 omen",
	"vectors/005.json: unknown vector kind: 005 exit_code",
	"vectors/006.json: not a list of vectors",
	"vectors/notes.txt: no test reads this kind of file",
	"corpus/more.jsonl: unknown field \"colour\" in a line",
	"corpus/more.jsonl:4: unreadable: unexpected end of JSON input",
	"corpus/table.csv: no test reads this kind of file",
	"webhooks/broken.json: not JSON",
}

// TestReaderMeetsTheUnknown: the reader reports each unknown part once by name, and reads the rest.
func TestReaderMeetsTheUnknown(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "vectors/003.json", `{"seed": "003", "new": 1, "vectors": [
		{"id": "003-900", "kind": "exit_code", "input": {"has_failures": true}, "expected": {"exit": 1}},
		{"id": "003-901", "kind": "exit_code", "input": {"has_failures": "yes"}, "expected": {"exit": 1}},
		{"id": "003-902", "kind": "exit_code", "input": {"has_failures": "no"}, "expected": {"exit": 0}},
		{"id": "003-903", "kind": "exit_code", "input": {"success": true, "weather": "fine"}, "expected": {"exit": 0}},
		{"id": "003-904", "kind": "exit_code", "input": {"success": true, "weather": {"sky": "blue"}}, "expected": {"exit": 0}},
		{"id": "003-905", "kind": "exit_code", "input": {"success": null}, "expected": [0]},
		{"id": "003-906", "kind": "exit_code", "input": {"success": null}, "expected": {"exit": 0}, "mood": "grim"},
		{"id": "003-907", "kind": "omen", "input": {}, "expected": {}},
		{"id": "003-908", "kind": "omen", "input": {}, "expected": {}},
		{"id": 909, "kind": "exit_code"},
		"a word"
	]}`)
	put(t, dir, "vectors/005.json",
		`{"seed": "005", "vectors": [{"id": "005-001", "kind": "exit_code", "input": {}, "expected": {}}]}`)
	put(t, dir, "vectors/006.json", `[]`)
	put(t, dir, "vectors/notes.txt", `?`)
	put(t, dir, "corpus/more.jsonl", `{"id": "a", "reason": "brand_new", "exit_code": 1}`+"\n"+
		`{"id": "b", "colour": 1}`+"\n"+`{"id": "c", "colour": 2}`+"\n{\n")
	put(t, dir, "corpus/table.csv", `?`)
	put(t, dir, "corpus/LABELS.md", `labels`)
	put(t, dir, "github/webhooks/issues__sighed.payload.json", `{"action": "sighed"}`)
	put(t, dir, "github/webhooks/broken.json", `{`)
	f, err := read(own, dir)
	if err != nil {
		t.Fatal(err)
	}
	want := readerMeetsTheUnknownCases
	if !slices.Equal(f.problems, want) {
		t.Errorf("problems:\n%s\nwant:\n%s", strings.Join(f.problems, "\n"), strings.Join(want, "\n"))
	}
	var ids []string
	for _, v := range f.vectors {
		ids = append(ids, v.ID)
	}
	for _, l := range f.lines {
		ids = append(ids, l.ID)
	}
	for name := range f.webhooks {
		ids = append(ids, name)
	}
	if got := strings.Join(ids, " "); got != "003-900 003-903 003-904 003-906 a b c issues__sighed.payload.json" {
		t.Errorf("read: %s", got)
	}
	if !strings.HasPrefix(f.openAPI, own) {
		t.Errorf("%s: want the project's file, because the directory lacks it", f.openAPI)
	}
}

func TestFolderWithoutParts(t *testing.T) {
	dir := t.TempDir()
	f, err := read(own, dir)
	if err != nil || len(f.problems) != 1 || !strings.Contains(f.problems[0], "RETAKE_TESTDATA="+dir) ||
		len(f.vectors) == 0 {
		t.Errorf("%v, %q, %d vectors", err, f.problems, len(f.vectors))
	}
}
