package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var agentState = []string{".opencode", "!.opencode/agents", ".crush", ".aider*"}

// TestStateIsNoDelivery: if an agent wrote only its state and ignored files, there is nothing to deliver.
func TestStateIsNoDelivery(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n", ".gitignore": "*.log\n"})
	w := open(t, Options{StatePaths: agentState})
	c := checkout(t, w, o, nonceB)
	for _, name := range []string{
		".opencode/opencode.db", ".crush/crush.db", ".crush/.gitignore",
		".aider.chat.history.md", "build.log",
	} {
		put(t, c.Path, name, "x")
	}
	if _, err := w.Deliver(t.Context(), request(o, nonceB)); !errors.Is(err, ErrNothingToDeliver) {
		t.Errorf("got %v, want ErrNothingToDeliver", err)
	}
	if patch, err := w.Patch(t.Context(), nonceB); err != nil || patch != "" {
		t.Errorf("patch %q, %v", patch, err)
	}
}

// TestBranchCarriesTheWorkOnly: pushed objects never contain the agent's state, even if the agent committed it or
// wrote ignore files. Files of the base are work even if the globs match them.
func TestBranchCarriesTheWorkOnly(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{
		"a.txt": "one\n", ".opencode/agents/review.md": "old\n",
		".crush/shared.json": "old\n", ".aider.conf": "old\n",
	})
	w := open(t, Options{StatePaths: agentState})
	c := checkout(t, w, o, nonceB)
	put(t, c.Path, "a.txt", "two\n")
	put(t, c.Path, ".gitignore", "!.opencode/**\n!.crush/**\n")
	put(t, c.Path, ".opencode/opencode.db", "secret session")
	put(t, c.Path, ".opencode/agents/review.md", "new\n")
	put(t, c.Path, ".opencode/agents/more.md", "more\n")
	put(t, c.Path, ".crush/crush.db", "secret session")
	put(t, c.Path, ".crush/shared.json", "new\n")
	if err := os.Remove(filepath.Join(c.Path, ".aider.conf")); err != nil {
		t.Fatal(err)
	}
	sh(t, c.Path, "init", "-q")
	sh(t, c.Path, "add", "-A", "-f")
	sh(t, c.Path, "commit", "-q", "-m", "all of it")
	d := deliver(t, w, o, nonceB)
	want := ".crush/shared.json\n.gitignore\n.opencode/agents/more.md\n.opencode/agents/review.md\na.txt"
	if got := o.files(t, branch); got != want {
		t.Errorf("files: %q, want %q", got, want)
	}
	if got := sh(t, o.bare, "log", "--format=%P", "-1", branch); got != c.BaseSHA {
		t.Errorf("the parent is %s, want only the base", got)
	}
	if got := sh(t, o.bare, "show", branch+":.crush/shared.json"); got != "new" {
		t.Errorf("a file of the base: %q", got)
	}
	for object := range strings.FieldsSeq(sh(t, o.bare, "cat-file", "--batch-all-objects",
		"--batch-check=%(objectname)")) {
		if strings.Contains(sh(t, o.bare, "cat-file", "-p", object), "secret session") {
			t.Errorf("object %s was pushed", object)
		}
	}
	if d.ChangedFiles != 6 {
		t.Errorf("%d changed files", d.ChangedFiles)
	}
	if got, err := os.ReadFile(filepath.Join(c.Path, ".opencode/opencode.db")); err != nil ||
		string(got) != "secret session" {
		t.Errorf("the agent's state: %q, %v", got, err)
	}
}

// TestSyncLeavesStateAlone: the agent's state stays in the checkout, and does not take part in the merge.
func TestSyncLeavesStateAlone(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	w := open(t, Options{StatePaths: agentState})
	c := checkout(t, w, o, nonceB)
	put(t, c.Path, ".crush/crush.db", "session")
	o.change(t, map[string]string{"b.txt": "new\n"})
	if s, err := w.Sync(t.Context(), Request{Nonce: nonceB, Repo: repo, RemoteURL: o.bare, BaseBranch: "main"},
		SyncOptions{}); err != nil || !s.Merged {
		t.Fatalf("%+v, %v", s, err)
	}
	if got, err := os.ReadFile(filepath.Join(c.Path, ".crush/crush.db")); err != nil || string(got) != "session" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := w.Deliver(t.Context(), request(o, nonceB)); !errors.Is(err, ErrNothingToDeliver) {
		t.Errorf("got %v, want ErrNothingToDeliver", err)
	}
}

func TestTracked(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{
		"a.txt": "", ".gitignore": "*.log\n/out/\n", "kept.log": "", "out/x": "", "sub/out/x": "",
		"sub/.gitignore": "x\n", ".crush/shared.json": "",
		".opencode/agents/x.md": "",
	})
	w := open(t, Options{StatePaths: agentState})
	c := checkout(t, w, o, nonceB)
	put(t, c.Path, ".crush/crush.db", "x")
	put(t, c.Path, "new.log", "x")
	put(t, c.Path, ".gitignore", "a.txt\n")
	got, all, err := w.Tracked(t.Context(), nonceB)
	if want := []string{".crush/shared.json", "kept.log", "out/x", "sub/out/x"}; err != nil || !all ||
		!slices.Equal(got, want) {
		t.Errorf("%q, all: %t, %v; want %q", got, all, err, want)
	}
	deliver(t, w, o, nonceB) // works after Tracked changed the index
}

func TestTrackedSaysWhenItIsCut(t *testing.T) {
	t.Parallel()
	files := map[string]string{".gitignore": "/out/\n"}
	for n := range maxTracked + 1 {
		files["out/"+strconv.Itoa(n)] = ""
	}
	o := newOrigin(t, files)
	w := open(t, Options{StatePaths: agentState})
	checkout(t, w, o, nonceB)
	if got, all, err := w.Tracked(t.Context(), nonceB); err != nil || all || len(got) != maxTracked {
		t.Errorf("%d files, all: %t, %v; want the first %d", len(got), all, err, maxTracked)
	}
}

func TestStatePathsAreChecked(t *testing.T) {
	t.Parallel()
	_, err := Open(Options{Dir: t.TempDir(), StatePaths: []string{"/etc"}})
	wantKind(t, err, Permanent, `"/etc": the glob is not relative to the work tree`)
}
