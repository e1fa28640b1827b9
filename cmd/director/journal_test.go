package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The commands work on the journal of a stopped director.
func TestJournalCommands(t *testing.T) {
	dir := t.TempDir()
	data, err := os.ReadFile("../../internal/director/testdata/journals/v0-chain.jsonl.zst")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"c.toml":        "[director]\ndata_dir = \"data\"\n",
		"old.jsonl.zst": string(data), "cut.jsonl.zst": string(data[:len(data)/2]),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		line string
		exit string
		want []string
	}{
		{"director journal verify", "exit 0", []string{"0 without gaps", "not written yet", "whole"}},
		{"director journal import cut.jsonl.zst", "exit 2", []string{"cut.jsonl.zst is damaged (broken) at batch"}},
		{"director journal import old.jsonl.zst", "exit 0", []string{" batches, up to "}},
		{"director journal verify", "exit 0", []string{"journal.head", "snapshot", ": ok", "whole"}},
		{"director journal verify --json", "exit 0", []string{`"damages":[]`, `"mirror":{"seq":`}},
		{"director journal import old.jsonl.zst", "exit 1", []string{"--set-aside FILE"}},
		{
			"director journal export new.jsonl.zst && ls new.jsonl.zst", "exit 0",
			[]string{" batches, up to ", "new.jsonl.zst"},
		},
		{
			"director journal import new.jsonl.zst --set-aside aside.jsonl.zst && ls aside.jsonl.zst", "exit 0",
			[]string{" batches, up to ", "aside.jsonl.zst"},
		},
		{
			"rm -r data/bus/jetstream; director journal verify", "exit 1",
			[]string{"DAMAGED", "(cut) at batch 1", "according to journal.head"},
		},
		{
			"director journal export x.jsonl.zst; ls x.jsonl.zst", "exit 2",
			[]string{"(cut) at batch 1", "cannot access"},
		},
		{"cp -r data data.before; chmod -R a-w data; director journal verify; chmod -R u+w data; diff -r data " +
			"data.before && echo the same", "exit 0", []string{"(cut) at batch 1", "the same"}},
		{"director journal export", "exit 2", []string{"want one file to write to"}},
		{"flock data/lock director journal verify", "exit 2", []string{"another director is running on"}},
	} {
		out, _ := shell(t, dir, strings.NewReplacer("director journal verify", "director journal verify -c c.toml",
			"director journal export", "director journal export -c c.toml",
			"director journal import", "director journal import -c c.toml").Replace(step.line)+`; echo "exit $?"`)
		for _, want := range append(step.want, step.exit) {
			if !strings.Contains(out, want) {
				t.Errorf("%s: want %q in\n%s", step.line, want, out)
			}
		}
	}
}
