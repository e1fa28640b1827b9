package workspace

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// newSHA256Origin is newOrigin in git's other object format.
func newSHA256Origin(t testing.TB) origin {
	t.Helper()
	requireGit(t)
	dir := t.TempDir()
	o := origin{bare: filepath.Join(dir, "remote.git"), clone: filepath.Join(dir, "clone")}
	sh(t, dir, "init", "-q", "--bare", "-b", "main", "--object-format=sha256", o.bare)
	sh(t, dir, "init", "-q", "-b", "main", "--object-format=sha256", o.clone)
	sh(t, o.clone, "remote", "add", "origin", o.bare)
	o.change(t, map[string]string{"a.txt": "one\n", ".gitattributes": "*.bin filter=lfs\n"})
	return o
}

// TestSHA256 delivers to a repository in the SHA-256 format, merges its base branch, and repairs damage.
func TestSHA256(t *testing.T) {
	t.Parallel()
	o := newSHA256Origin(t)
	w := open(t, Options{})
	c := checkout(t, w, o, nonceB)
	put(t, c.Path, "a.bin", "raw")
	wantSeen(t, looked(t, w, o), "a.bin=lfs")
	if err := os.RemoveAll(filepath.Join(w.tasks.at("", nonceB).dir, "git")); err != nil {
		t.Fatal(err)
	}
	to := o.change(t, map[string]string{"b.txt": "new\n"})
	if s, err := w.Sync(t.Context(), Request{Nonce: nonceB, Repo: repo, RemoteURL: o.bare, BaseBranch: "main"},
		SyncOptions{}); err != nil || !s.Merged || s.To != to {
		t.Fatalf("%+v, %v", s, err)
	}
	if d := deliver(t, w, o, nonceB); len(d.SHA) != 64 || o.files(t, branch) != ".gitattributes\na.bin\na.txt\nb.txt" {
		t.Errorf("%+v: %q", d, o.files(t, branch))
	}
}

// TestRepositoryThatChangedItsFormat: the error names both formats. The mirror is kept, because tasks depend on it.
func TestRepositoryThatChangedItsFormat(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	w := open(t, Options{})
	checkout(t, w, o, nonceA)
	_, err := w.Checkout(t.Context(), Request{
		Nonce: nonceB, Repo: repo, RemoteURL: newSHA256Origin(t).bare,
		BaseBranch: "main",
	})
	wantKind(t, err, Permanent, "sha256", "object format")
	if !errors.Is(err, ErrFormat) {
		t.Errorf("got %v, want ErrFormat", err)
	}
}

// TestBranchesThatAreMissing: the error names the default branch, or says that the repository is empty.
func TestBranchesThatAreMissing(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	w := open(t, Options{})
	c := checkout(t, w, o, nonceB)
	put(t, c.Path, "b.txt", "x")
	sh(t, o.bare, "branch", "-m", "main", "trunk/1")
	q := Request{Nonce: nonceB, Repo: repo, RemoteURL: o.bare, BaseBranch: "main"}
	_, err := w.Drift(t.Context(), q)
	wantKind(t, err, Permanent, "no branch main", "default branch is trunk/1", "github.base_branch")
	if !errors.Is(err, ErrNotThere) {
		t.Errorf("got %v, want ErrNotThere", err)
	}
	empty := filepath.Join(t.TempDir(), "empty.git")
	emptyRepository(t, empty, "true", "")
	q.Nonce, q.Repo, q.RemoteURL = nonceA, "acme/empty", empty
	_, err = w.Checkout(t.Context(), q)
	wantKind(t, err, Permanent, "the repository is empty", "push a first commit")
	put(t, empty, "HEAD", "ref: refs/heads/gone\n")
	sh(t, empty, "fetch", "-q", o.bare, "trunk/1:refs/heads/other")
	_, err = w.Checkout(t.Context(), q)
	wantKind(t, err, Permanent, "couldn't find remote ref", "github.base_branch")
}

// TestOddNames: tags and branches may have any name that git allows.
func TestOddNames(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	base := "feature/ü#1@%x+y=z"
	sh(t, o.bare, "branch", base, "main")
	for _, tag := range []string{base, "main", branch, "HEAD", "-x"} {
		sh(t, o.bare, "update-ref", "refs/tags/"+tag, "main")
	}
	for _, other := range []string{"HEAD", "retake/21-a1.x", "refs/heads/main"} {
		sh(t, o.bare, "update-ref", "refs/heads/"+other, "refs/heads/main")
	}
	w := open(t, Options{})
	c, err := w.Checkout(t.Context(), Request{Nonce: nonceB, Repo: repo, RemoteURL: o.bare, BaseBranch: base})
	if err != nil {
		t.Fatal(err)
	}
	put(t, c.Path, "b.txt", "x")
	q := request(o, nonceB)
	q.BaseBranch = base
	if d, err := w.Deliver(t.Context(), q); err != nil || d.SHA != sh(t, o.bare, "rev-parse", "refs/heads/"+branch) {
		t.Errorf("%+v, %v", d, err)
	}
	// The branch "retake" blocks all names below it.
	blocked := newOrigin(t, map[string]string{"a.txt": "one\n"})
	sh(t, blocked.bare, "branch", "retake", "main")
	w = open(t, Options{})
	put(t, checkout(t, w, blocked, nonceB).Path, "b.txt", "x")
	_, err = w.Deliver(t.Context(), request(blocked, nonceB))
	wantKind(t, err, Conflict, "retake/21-a1")
}

// TestTreesOfAllSorts: checkouts and deliveries keep every byte of these trees.
func TestTreesOfAllSorts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ base, work map[string]string }{
		"names that differ in case": {
			map[string]string{"README": "1", "readme": "2", "Src/a": "3", "src/A": "4"},
			map[string]string{"ReadMe": "5", "readme": "6"},
		},
		"CODEOWNERS": {
			map[string]string{".github/CODEOWNERS": "/payments/ @acme/payments\n", "payments/a.go": "1"},
			map[string]string{"payments/a.go": "2", "CODEOWNERS": "* @me\n"},
		},
		"export-ignore": {
			map[string]string{".gitattributes": "/tests export-ignore\n* export-subst\n", "tests/a": "$Format:%H$"},
			map[string]string{"tests/a": "$Format:%h$", "tests/b": "x"},
		},
		"eol, ident, encodings": {
			map[string]string{
				".gitattributes": "*.bat eol=crlf\n*.sh eol=lf\n*.c ident\n*.txt working-tree-encoding=UTF-16\n",
				"a.bat":          "x\r\n", "b.bat": "x\n", "c.c": "$Id$\n", "d.txt": "plain\n",
			},
			map[string]string{"a.bat": "y\r\n", "b.bat": "y\n", "e.sh": "z\r\n", "c.c": "$Id: x$\n", "d.txt": "more\n"},
		},
		"hooks": {
			map[string]string{".husky/pre-commit": "exit 1\n", "hooks/pre-commit": "exit 1\n"},
			map[string]string{".husky/pre-push": "exit 1\n", "new": "x"},
		},
		"deep": {
			map[string]string{strings.Repeat("d/", 150) + "f": "1"},
			map[string]string{strings.Repeat("d/", 150) + "g": "2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOrigin(t, c.base)
			w := open(t, Options{})
			co := checkout(t, w, o, nonceB)
			for file, text := range c.base {
				if got, err := os.ReadFile(filepath.Join(co.Path, file)); err != nil || string(got) != text {
					t.Errorf("%s is %q, %v; want %q", file, got, err, text)
				}
			}
			for file, text := range c.work {
				put(t, co.Path, file, text)
			}
			wantSeen(t, looked(t, w, o))
			for file, text := range c.work {
				if got := sh(t, o.bare, "cat-file", "blob", branch+":"+file); got != strings.TrimSuffix(text, "\n") {
					t.Errorf("%s was delivered as %q, want %q", file, got, text)
				}
			}
		})
	}
}

// TestServerWithoutFilters uses a server without support for partial clones.
func TestServerWithoutFilters(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	for _, key := range []string{"allowFilter", "allowAnySHA1InWant", "allowReachableSHA1InWant"} {
		sh(t, o.bare, "config", "uploadpack."+key, "false")
	}
	sh(t, o.bare, "config", "protocol.version", "0")
	w := open(t, Options{})
	put(t, checkout(t, w, o, nonceB).Path, "b.txt", "x")
	deliver(t, w, o, nonceB)
}

// TestSignaturesThatAServerRequires: the error quotes the rule of the server.
func TestSignaturesThatAServerRequires(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	hook := put(t, o.bare, "hooks/pre-receive", "#!/bin/sh\necho 'error: GH006: Protected branch update failed.'\n"+
		"echo 'error: Commits must have verified signatures.'\nexit 1\n")
	if err := os.Chmod(hook, 0o755); err != nil {
		t.Fatal(err)
	}
	w := open(t, Options{})
	put(t, checkout(t, w, o, nonceB).Path, "b.txt", "x")
	_, err := w.Deliver(t.Context(), request(o, nonceB))
	wantKind(t, err, Permanent, "Commits must have verified signatures")
	if !errors.Is(err, ErrRefused) {
		t.Errorf("got %v, want ErrRefused", err)
	}
}

// TestLargeRepositories covers 200,000 files and a history of 2 GB, in the nightly run.
func TestLargeRepositories(t *testing.T) {
	if os.Getenv("RETAKE_NIGHTLY") != "1" {
		t.Skip("takes minutes and 6 GB of disk: RETAKE_NIGHTLY=1")
	}
	files := map[string]string{".gitattributes": "*.bin filter=lfs\n"}
	for i := range 200_000 {
		files[fmt.Sprintf("services/%d/%d/%d.go", i/10_000, i/100, i)] = fmt.Sprintf("package p%d\n", i)
	}
	o := newOrigin(t, files)
	growHistory(t, o, 2<<30)
	w := open(t, Options{})
	c := checkout(t, w, o, nonceB)
	put(t, c.Path, "services/0/0/new.go", "package p\n")
	put(t, c.Path, "services/0/0/new.bin", "raw")
	wantSeen(t, looked(t, w, o), "services/0/0/new.bin=lfs")
	if got := sh(t, o.bare, "diff", "--name-only", "main", branch); got !=
		"services/0/0/new.bin\nservices/0/0/new.go" {
		t.Errorf("delivered %q", got)
	}
}

// growHistory adds commits with random files until they have size bytes, and removes the files.
func growHistory(t *testing.T, o origin, size int) {
	t.Helper()
	script := fmt.Sprintf(`from=refs/heads/main^0
for n in $(seq 1 %d); do
  printf 'commit refs/heads/main\ncommitter A <a@example.com> now\ndata 1\nx\n'
  [ $n = 1 ] && printf 'from %%s\n' $from
  printf 'M 100644 inline big\ndata 16777216\n'; head -c 16777216 /dev/urandom; echo
done
printf 'commit refs/heads/main\ncommitter A <a@example.com> now\ndata 1\nx\nD big\n'`, size>>24)
	cmd := exec.Command("sh", "-c", "("+script+") | git fast-import --quiet --date-format=now")
	cmd.Dir = o.bare
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("fast-import: %v\n%s", err, out)
	}
}
