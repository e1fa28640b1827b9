package testfiles

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Variable is the environment variable that names a directory to read instead of the project's own test data.
const Variable = "RETAKE_TESTDATA"

// Vector is one expectation that follows from a founding document.
type Vector struct {
	Seed     string          `json:"-"` // the document: "000" … "004"
	ID       string          `json:"id"`
	Kind     string          `json:"kind"`
	Input    json.RawMessage `json:"input"`
	Expected json.RawMessage `json:"expected"`
	Note     string          `json:"note"`
	Basis    string          `json:"basis"`
	Source   string          `json:"source"`
	Binding  bool            `json:"binding"` // the document itself states the expectation
}

// Line is one labelled output of a real program.
type Line struct {
	File       string   `json:"-"`
	ID         string   `json:"id"`
	Tool       string   `json:"tool"`
	Stage      string   `json:"stage"`
	Command    string   `json:"command"`
	ExitCode   *int     `json:"exit_code"`
	HTTPStatus *int     `json:"http_status"`
	Text       string   `json:"text"`
	Reason     string   `json:"reason"`
	RetryAfter *float64 `json:"retry_after_seconds"`
	Scenario   string   `json:"scenario"`
}

// Vectors returns the vectors of the requested kinds, in file order. Without arguments, it returns the vectors of all
// kinds.
func Vectors(t testing.TB, kinds ...string) []Vector {
	t.Helper()
	all := slices.Clone(data(t).vectors)
	if len(kinds) > 0 {
		all = slices.DeleteFunc(all, func(v Vector) bool { return !slices.Contains(kinds, v.Kind) })
	}
	return all
}

// Corpus returns the lines of all corpora.
func Corpus(t testing.TB) []Line {
	t.Helper()
	return slices.Clone(data(t).lines)
}

// OpenAPI returns the path of GitHub's API description.
func OpenAPI() (string, error) {
	f, err := load()
	if err != nil {
		return "", err
	}
	return f.openAPI, nil
}

// Webhooks returns GitHub's webhook examples by file name.
func Webhooks(t testing.TB) map[string][]byte {
	t.Helper()
	return data(t).webhooks
}

// Try runs one check. A panic or a Fatal fails only this check, and Try returns false.
func Try(t *testing.T, name string, check func(*testing.T)) bool {
	t.Helper()
	return t.Run(name, func(t *testing.T) {
		defer func() {
			if v := recover(); v != nil {
				t.Errorf("panic: %v", v)
			}
		}()
		check(t)
	})
}

// data returns the test data, from the project or from the directory in Variable.
func data(t testing.TB) *files {
	t.Helper()
	f, err := load()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

var load = sync.OnceValues(func() (*files, error) {
	own, err := ownFolder()
	if err != nil {
		return nil, err
	}
	return read(own, os.Getenv(Variable))
})

// ownFolder finds the project's test data, searching upwards from the directory of the tested package.
func ownFolder() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		own := filepath.Join(dir, "internal", "testfiles", "testdata")
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return own, nil
		}
		if filepath.Dir(dir) == dir {
			err = os.ErrNotExist
		}
	}
	return "", err
}

// known returns the fields that tests understand, as path and type, for each kind of vector.
func known(own string) (map[string][]string, error) {
	text, err := os.ReadFile(filepath.Join(own, fieldsFile))
	fields := map[string][]string{}
	kind := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		if field, ok := strings.CutPrefix(line, "  "); ok {
			fields[kind] = append(fields[kind], field)
		} else if line != "" {
			kind = line
			fields[kind] = nil
		}
	}
	for kind, more := range alsoRead {
		fields[kind] = append(fields[kind], more...)
	}
	return fields, err
}
