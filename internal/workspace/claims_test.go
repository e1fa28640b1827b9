package workspace

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A checkout records its task and the number of its attempts, for a process that has lost all other state. Claims omits
// a damaged record.
func TestClaimsOfCheckouts(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	dir := t.TempDir()
	w := open(t, Options{Dir: dir})
	q := Request{Nonce: nonceA, Repo: repo, RemoteURL: o.bare, BaseBranch: "main", Task: repo + "#7"}
	for _, q.Attempt = range []int{1, 3, 2} {
		if _, err := w.Checkout(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	checkout(t, w, o, nonceB)
	want := []Claim{{nonceA, repo, repo + "#7", 3, nil}, {nonceB, repo, "", 0, nil}}
	slices.SortFunc(want, func(a, b Claim) int { return map[bool]int{true: -1, false: 1}[a.Nonce < b.Nonce] })
	if all, err := open(t, Options{Dir: dir}).Claims(); err != nil || !slices.Equal(all, want) {
		t.Errorf("claims %+v, %v; want %+v", all, err, want)
	}
	if err := os.WriteFile(filepath.Join(dir, "tasks", nonceB, "task.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if all, err := w.Claims(); err != nil || len(all) != 1 {
		t.Errorf("with a damaged record: %+v, %v", all, err)
	}
}

// Branches are listed below a folder even if no checkout exists.
func TestBranchesOfARemote(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	for _, name := range []string{"retake/7-a1", "retake/7-a3-unfinished", "retaken", "people/retake/1"} {
		sh(t, o.bare, "branch", name, "main")
	}
	w := open(t, Options{})
	if all, err := w.Branches(t.Context(), o.bare, "retake"); err != nil ||
		!slices.Equal(all, []string{"retake/7-a1", "retake/7-a3-unfinished"}) {
		t.Errorf("%q, %v", all, err)
	}
	if all, err := w.Branches(t.Context(), o.bare+"-gone", "retake"); err == nil {
		t.Errorf("branches of a missing remote: %q", all)
	}
}

// TestTermsOfAnAttempt checks that a checkout's record keeps the terms of its attempt. Another machine can read them
// from the record. Files that match the state paths do not count as work.
func TestTermsOfAnAttempt(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	dir := t.TempDir()
	w := open(t, Options{Dir: dir})
	if got, err := w.Agreed(nonceA, nil); got != nil || err != nil {
		t.Errorf("without a checkout: %+v, %v", got, err)
	}
	path := checkout(t, w, o, nonceA).Path
	want := Agreement{Attempt: 2, Contract: json.RawMessage(`{"path":"x"}`), StatePaths: []string{"notes/"}}
	if err := w.Agree(t.Context(), nonceA, want); err != nil {
		t.Fatal(err)
	}
	record, _ := w.Record(nonceA)
	for name, at := range map[string]*Workspaces{"here": open(t, Options{Dir: dir}), "elsewhere": open(t, Options{})} {
		got, err := at.Agreed(nonceA, record)
		if err != nil || got == nil || got.Attempt != 2 || !slices.Equal(got.StatePaths, want.StatePaths) ||
			strings.ReplaceAll(strings.ReplaceAll(string(got.Contract), "\n", ""), " ", "") != string(want.Contract) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for _, name := range []string{"notes/mine.txt", "work.txt"} {
		file := filepath.Join(path, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("x\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	patch, err := w.Patch(t.Context(), nonceA)
	if err != nil || strings.Contains(patch, "notes/mine.txt") || !strings.Contains(patch, "work.txt") {
		t.Errorf("the patch is %q, %v", patch, err)
	}
}

// TestBaseFile checks that BaseFile reads the first existing file at a commit of the base branch, not from a checkout.
func TestBaseFile(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n", "dir/b.txt": "two\n"})
	w := open(t, Options{})
	q := Request{Nonce: nonceA, Repo: repo, RemoteURL: o.bare, BaseBranch: "main"}
	c := checkout(t, w, o, nonceA)
	if err := os.WriteFile(filepath.Join(c.Path, "a.txt"), []byte("changed\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		at    string
		limit int
		names []string
		want  BaseFile
	}{
		"at the head": {"", 100, []string{"a.txt"}, BaseFile{Name: "a.txt", Data: []byte("one\n")}},
		"at a commit": {
			c.BaseSHA, 100, []string{"no.txt", "dir/b.txt"}, BaseFile{Name: "dir/b.txt", Data: []byte("two\n")},
		},
		"truncated":     {c.BaseSHA, 1, []string{"a.txt"}, BaseFile{Name: "a.txt", Data: []byte("on")}},
		"a directory":   {c.BaseSHA, 100, []string{"dir"}, BaseFile{Name: "dir", Odd: "not a file"}},
		"no such file":  {c.BaseSHA, 100, []string{"no.txt"}, BaseFile{}},
		"not a pattern": {c.BaseSHA, 100, []string{"*.txt"}, BaseFile{}},
	} {
		got, err := w.BaseFile(t.Context(), q, row.at, row.limit, row.names...)
		if err != nil || got.Name != row.want.Name || got.Odd != row.want.Odd || got.Commit != c.BaseSHA ||
			string(got.Data) != string(row.want.Data) {
			t.Errorf("%s: got %+v, %v; want %+v", name, got, err, row.want)
		}
	}
	const lost = "1111111111111111111111111111111111111111"
	if _, err := w.BaseFile(t.Context(), q, lost, 100, "a.txt"); !errors.Is(err, ErrNotThere) {
		t.Errorf("a commit that the server does not have: %v", err)
	}
}

// TestMissingBranchThatIsThere checks that a contradiction of the server is not blamed on the configuration.
func TestMissingBranchThatIsThere(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	w := open(t, Options{})
	r, err := parseRemote("fetch", o.bare)
	if err != nil {
		t.Fatal(err)
	}
	checkout(t, w, o, nonceA) // creates the mirror
	mirror := w.mirrors.at("fetch", repo, nil)
	refused := &Error{Kind: Permanent, Op: "fetch", Next: nextBranch, Err: ErrNotThere}
	wantKind(t, w.mirrors.remotes.missing(t.Context(), mirror, "main", r, refused), Transient, "contradicts itself")
	other := w.mirrors.remotes.missing(t.Context(), mirror, "trunk", r, refused)
	wantKind(t, other, Permanent, "its default branch is main")
}
