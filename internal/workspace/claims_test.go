package workspace

import (
	"os"
	"path/filepath"
	"slices"
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
