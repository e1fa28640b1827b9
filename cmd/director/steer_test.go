package main

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"retake/internal/director/operator"
)

// steerable starts a director that rejects commands about issue 2, and echoes others.
func steerable(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	door, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, operator.SocketName))
	if err != nil {
		t.Fatal(err)
	}
	handle := func(w http.ResponseWriter, r *http.Request) {
		var c operator.TaskCommand
		_ = json.NewDecoder(r.Body).Decode(&c)
		w.Header().Set("Content-Type", "application/json")
		a := operator.TaskAnswer{
			Issue:   r.PathValue("owner") + "/" + r.PathValue("repo") + "#" + r.PathValue("number"),
			Command: c.Command, By: "alice (operator)",
		}
		if r.PathValue("number") == "2" {
			a.Problem = "attempt 1 is under way; `/agent stop` ends it"
			w.WriteHeader(http.StatusConflict)
		} else {
			a.State, a.WaitsFor = "Backoff",
				strings.TrimSpace(strings.Join([]string{c.Text, c.For, strings.Repeat("+", c.Amount), c.By}, " "))
			if c.For != "" {
				a.Until = "2026-11-23T12:00:00Z"
			}
		}
		if r.Method == http.MethodPut {
			a.Command, a.State = "add", ""
		}
		_ = json.NewEncoder(w).Encode(a)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /tasks/{owner}/{repo}/{number}/commands", handle)
	mux.HandleFunc("PUT /tasks/{owner}/{repo}/{number}", handle)
	server := &http.Server{Handler: mux} //nolint:gosec // of a test
	go func() { _ = server.Serve(door) }()
	t.Cleanup(func() { _ = server.Shutdown(context.Background()) })
	return dir
}

func TestSteeringCommands(t *testing.T) {
	dir := steerable(t)
	for _, c := range []struct {
		command string
		exit    int
		says    string
	}{
		{"director retry 1 use the other table", 0, "a/b#1: retry by alice (operator): it is Backoff, waiting for " +
			"use the other table\n"},
		{"director retry b#1", 0, "a/b#1: retry by alice (operator): it is Backoff, waiting for -\n"},
		{"director fresh a/b#1 --by bob", 0, "a/b#1: fresh by alice (operator): it is Backoff, waiting for bob\n"},
		{"director fix 1 'read twice'", 0, "a/b#1: fix by alice (operator): it is Backoff, waiting for read twice\n"},
		{"director fix 1 --text 'read twice'", 0, "waiting for read twice\n"},
		{"director snooze 1 2h", 0, "waiting for 2h, until 2026-11-23 12:00:00\n"},
		{"director grant 1 +3", 0, "a/b#1: grant by alice (operator): it is Backoff, waiting for +++\n"},
		{"director release 1", 0, "a/b#1: stop by alice (operator)"},
		{"director take 1 --json", 0, `{"issue":"a/b#1","command":"take","by":"alice (operator)","state":"Backoff"}` +
			"\n"},
		{"director add 1", 0, "a/b#1: add by alice (operator): the next poll will find it\n"},
		{"director stop 2", 1, "attempt 1 is under way; `director stop a/b#2` ends it\n"},
		{"director add 2 --json", 1, `"problem":"attempt 1 is under way`},
		{"director stop", 2, "want ISSUE: "},
		{"director stop 1 2", 2, "want ISSUE: "},
		{"director fix 1", 2, "then a description of the fix"},
		{"director snooze 1", 2, "then a duration from 1 minute to 30 days"},
		{"director grant 1 many", 2, `"many": want a number of attempts`},
		{"director stop c/d/e", 2, "is not an issue"},
	} {
		out, exit := shell(t, t.TempDir(), "echo '[github]\nrepositories = [\"a/b\"]' > c.toml; "+c.command+
			" -c c.toml --set director.data_dir="+dir)
		if exit != c.exit || !strings.Contains(out, c.says) {
			t.Errorf("%s\n  exit %d, want %d, saying %q\n%s", c.command, exit, c.exit, c.says, out)
		}
	}
}

func TestOnlyNamesIssuesOfTheConfiguration(t *testing.T) {
	keys, err := onlyIssues("12, b#15", []string{"a/b"})
	if err != nil || len(keys) != 2 || keys[0] != "a/b#12" || keys[1] != "a/b#15" {
		t.Errorf("%v, %v", keys, err)
	}
	for list, says := range map[string]string{
		"c/d#1": "--only: c/d is not listed in github.repositories (a/b)", "x": `--only: "x" is not an issue`,
		",": "--only does not list any issues",
	} {
		if keys, err := onlyIssues(list, []string{"a/b"}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, %v; want %q", list, keys, err, says)
		}
	}
}
