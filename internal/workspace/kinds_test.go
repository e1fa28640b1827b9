package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// looked returns the files of a delivery that Check can refuse: "path (submodule)" for a file that the commit cannot
// contain, "path=filter" for a file with a filter.
func looked(t testing.TB, w *Workspaces, o origin) (seen []string) {
	t.Helper()
	q := request(o, nonceB)
	q.Check = func(ctx context.Context, p *Patch) error {
		for _, l := range p.LeftOut {
			seen = append(seen, fmt.Sprintf("%s (%s)", l.Path, l.Submodule))
		}
		filtered, err := p.Filtered(ctx)
		for _, f := range filtered {
			seen = append(seen, f.Path+"="+f.Filter)
		}
		return err
	}
	if _, err := w.Deliver(t.Context(), q); err != nil && !errors.Is(err, ErrNothingToDeliver) {
		t.Fatal(err)
	}
	return seen
}

func wantSeen(t testing.TB, got []string, want ...string) {
	t.Helper()
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("Check sees\n%q, want\n%q", got, want)
	}
}

// withSubmodules commits submodules to main. Their commits exist nowhere.
func (o origin) withSubmodules(t testing.TB, paths ...string) {
	t.Helper()
	for _, p := range paths {
		sh(t, o.clone, "update-index", "--add", "--cacheinfo", "160000,"+strings.Repeat("1", 40)+","+p)
	}
	sh(t, o.clone, "commit", "-q", "-m", "submodules")
	sh(t, o.clone, "push", "-q", "origin", "main")
}

// TestFilesInSubmodules: Check gets the files that an agent writes in submodules, except ignored ones.
func TestFilesInSubmodules(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{".gitignore": "*.log\n", "a.txt": "one\n"})
	o.withSubmodules(t, "libs/w", "libs/w2", "x y", "empty")
	w := open(t, Options{StatePaths: []string{"**/.agent"}})
	c := checkout(t, w, o, nonceB)
	if same, err := w.Unchanged(t.Context(), nonceB); err != nil || !same {
		t.Fatalf("a new checkout is unchanged: %v, %v", same, err)
	}
	put(t, c.Path, "libs/w/new/inside.txt", "x")
	put(t, c.Path, "libs/w/build.log", "ignored")
	put(t, c.Path, "libs/w/.agent", "state")
	put(t, c.Path, "libs/w2/.git/HEAD", "a clone of the agent")
	put(t, c.Path, "libs/w2/.gitignore", "/out\n")
	put(t, c.Path, "libs/w2/out/a.o", "ignored")
	put(t, c.Path, "x y/line\nbreak", "x")
	if err := os.Symlink("libs/w/through.txt", filepath.Join(c.Path, "link")); err != nil {
		t.Fatal(err)
	}
	put(t, c.Path, "link", "x") // follows the link into the submodule
	if same, err := w.Unchanged(t.Context(), nonceB); err != nil || same {
		t.Errorf("unchanged: %v, %v", same, err)
	}
	wantSeen(t, looked(t, w, o), "libs/w/new/inside.txt (libs/w)", "libs/w/through.txt (libs/w)",
		"libs/w2/.gitignore (libs/w2)", "x y/line\nbreak (x y)")
	if got := sh(t, o.bare, "diff", "--name-status", "main", branch); got != "A\tlink" {
		t.Errorf("delivered %q", got)
	}
}

// TestSubmodulesThatAreReplaced: a file or a link in place of a submodule is an ordinary change.
func TestSubmodulesThatAreReplaced(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n", "b": "two\n"})
	o.withSubmodules(t, "w1", "w2")
	w := open(t, Options{})
	c := checkout(t, w, o, nonceB)
	at := func(name string) string { return filepath.Join(c.Path, name) }
	if err := errors.Join(os.Remove(at("w1")), os.Remove(at("w2")), os.Symlink("a.txt", at("w2")),
		os.Remove(at("b"))); err != nil {
		t.Fatal(err)
	}
	put(t, c.Path, "w1", "x")
	put(t, c.Path, "b/now/a/folder", "x")
	wantSeen(t, looked(t, w, o))
	if got := sh(t, o.bare, "diff", "--name-status", "main", branch); got != "D\tb\nA\tb/now/a/folder\nT\tw1\nT\tw2" {
		t.Errorf("delivered %q", got)
	}
}

// TestFilesUnderAFilter checks that a changed file with a filter is reported, for filters from any .gitattributes file.
// Content that the base already has is not reported.
func TestFilesUnderAFilter(t *testing.T) {
	t.Parallel()
	const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 9\n"
	o := newOrigin(t, map[string]string{
		".gitattributes": "[attr]large filter=lfs diff=lfs\n*.bin filter=lfs -text\n/media/** large\n" +
			"secret.* filter=git-crypt\nkept.bin !filter\nunset.bin -filter\neol.txt eol=crlf\n",
		"old.bin": pointer, "moved.bin": pointer + "x", "gone.bin": pointer, "run.bin": pointer,
	})
	w := open(t, Options{})
	c := checkout(t, w, o, nonceB)
	for _, name := range []string{
		"a.bin", "old.bin", "media/a/b.txt", "secret.key", "kept.bin", "unset.bin", "eol.txt", "sub/b.dat",
	} {
		put(t, c.Path, name, "raw\x00"+name)
	}
	put(t, c.Path, "sub/.gitattributes", "*.dat filter=other\n") // the agent wrote it
	if err := errors.Join(os.Rename(filepath.Join(c.Path, "moved.bin"), filepath.Join(c.Path, "to.bin")),
		os.Remove(filepath.Join(c.Path, "gone.bin")), os.Chmod(filepath.Join(c.Path, "run.bin"), 0o755),
		os.Symlink("a.txt", filepath.Join(c.Path, "link.bin"))); err != nil {
		t.Fatal(err)
	}
	wantSeen(t, looked(t, w, o), "a.bin=lfs", "media/a/b.txt=lfs", "old.bin=lfs", "secret.key=git-crypt",
		"sub/b.dat=other")
	if got := sh(t, o.bare, "cat-file", "blob", branch+":a.bin"); got != "raw\x00a.bin" {
		t.Errorf("a.bin is %q", got)
	}
	if _, err := os.Lstat(filepath.Join(w.tasks.at("", nonceB).dir, "attributes")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder for git's look at attributes: %v", err)
	}
}

// TestNamesThatGitRefuses: Check gets files with such names. Git reads the other files, more than once.
func TestNamesThatGitRefuses(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	w := open(t, Options{})
	c := checkout(t, w, o, nonceB)
	refused := []string{"GIT~1", "git~1 .", ".git.", ".git ::$INDEX", ".g\u200cit", `a\.git`, ".GIT~1x"}
	for _, name := range refused {
		put(t, c.Path, "sub/"+name+"/config", "x")
	}
	if err := os.Symlink("a.txt", filepath.Join(c.Path, ".gitmodules")); err != nil {
		t.Fatal(err)
	}
	put(t, c.Path, ".gitmodules.txt", "x")
	put(t, c.Path, "git~10", "x")
	for range 2 {
		wantSeen(t, looked(t, w, o), ".gitmodules ()", "sub/.git ::$INDEX ()", "sub/.git. ()", "sub/.g\u200cit ()",
			"sub/GIT~1 ()", `sub/a\.git ()`, "sub/git~1 . ()")
	}
	if got := o.files(t, branch); got != ".gitmodules.txt\na.txt\ngit~10\nsub/.GIT~1x/config" {
		t.Errorf("files: %q", got)
	}
}

// TestGitRefusesTheSameNames compares the names with git's judgement.
func TestGitRefusesTheSameNames(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	blob := sh(t, o.clone, "rev-parse", "HEAD:a.txt")
	for _, name := range []string{
		".git", ".GIT", ".git.", ".git ", ".git . .", "git~1", "GiT~1", "git~2", "git~1x", ".gitx", ".git:x", "git~1:x",
		".g\u200cit", ".gi\u206ft", ".git\ufeff", `a\.git`, `.git\a`, `git~1\b`, `a\b`, ".gitmodules", ".gitignore", "x.git",
	} {
		git := exec.Command("git", "-c", "core.protectHFS=true", "update-index", "--add", "--cacheinfo", "100644,"+
			blob+",sub/"+name)
		git.Dir = o.clone
		if want, got := git.Run() != nil, gitRefuses(name, false); got != want {
			t.Errorf("%q: git refuses: %t, we do: %t", name, want, got)
		}
	}
}
