package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"retake/internal/sys/powercut"
)

func TestMain(m *testing.M) {
	powercut.InMemory(2 << 30)
	goleak.VerifyTestMain(m)
}

const (
	nonceA = "k3v9qx2m"
	nonceB = "aaaaaaa2"
	repo   = "acme/widgets"
)

var authored = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

func requireGit(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git: " + err.Error())
	}
}

// sh runs git as an ordinary user would, and returns its output without the last line break.
func sh(t testing.TB, dir string, args ...string) string {
	t.Helper()
	return run(t, dir, "", args...)
}

func run(t testing.TB, dir, input string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(input)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=A",
		"GIT_COMMITTER_EMAIL=a@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSuffix(string(out), "\n")
}

func put(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// origin is a bare remote with one commit on main, and a clone for changing it.
type origin struct {
	bare, clone string
}

// newOrigin writes the repositories directly. Running init and clone would be slow for hundreds of tests.
func newOrigin(t testing.TB, files map[string]string) origin {
	t.Helper()
	requireGit(t)
	dir := t.TempDir()
	o := origin{bare: filepath.Join(dir, "remote.git"), clone: filepath.Join(dir, "clone")}
	emptyRepository(t, o.bare, "true", "")
	emptyRepository(t, filepath.Join(o.clone, ".git"), "false", fmt.Sprintf(`[remote "origin"]
	url = %s
	fetch = +refs/heads/*:refs/remotes/origin/*
[branch "main"]
	remote = origin
	merge = refs/heads/main
`, o.bare))
	o.importAll(t, files)
	return o
}

func emptyRepository(t testing.TB, dir, bare, config string) {
	t.Helper()
	for _, name := range []string{"objects/info", "objects/pack", "refs/heads", "refs/tags"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put(t, dir, "HEAD", "ref: refs/heads/main\n")
	put(t, dir, "config", "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tfsync = none\n\tbare = "+bare+
		"\n[maintenance]\n\tauto = false\n[gc]\n\tauto = 0\n"+config)
}

// importAll makes the first commit, in the remote and in its clone.
func (o origin) importAll(t testing.TB, files map[string]string) {
	t.Helper()
	var in strings.Builder
	in.WriteString("commit refs/heads/main\ncommitter A <a@example.com> now\ndata 7\nchange\n")
	for name, text := range files {
		if strings.ContainsAny(name, "\"\n\\") {
			t.Fatalf("%q: only change supports such a path", name)
		}
		fmt.Fprintf(&in, "M 100644 inline %s\ndata %d\n%s\n", name, len(text), text)
		put(t, o.clone, name, text)
	}
	run(t, o.bare, in.String(), "fast-import", "--quiet", "--date-format=now")
	for _, name := range []string{"objects", "refs"} {
		to := filepath.Join(o.clone, ".git", name)
		if err := errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(filepath.Join(o.bare, name)))); err != nil {
			t.Fatal(err)
		}
	}
	sh(t, o.clone, "read-tree", "HEAD")
}

// change commits files to main and returns the commit.
func (o origin) change(t testing.TB, files map[string]string) string {
	t.Helper()
	for name, text := range files {
		put(t, o.clone, name, text)
	}
	sh(t, o.clone, "add", "-A", "-f")
	sh(t, o.clone, "commit", "-q", "-m", "change")
	sh(t, o.clone, "push", "-q", "origin", "main")
	return sh(t, o.clone, "rev-parse", "HEAD")
}

func (o origin) files(t testing.TB, branch string) string {
	return sh(t, o.bare, "ls-tree", "-r", "--name-only", branch)
}

func open(t testing.TB, o Options) *Workspaces {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	w, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func checkout(t testing.TB, w *Workspaces, o origin, nonce string) Checkout {
	t.Helper()
	c, err := w.Checkout(t.Context(), Request{Nonce: nonce, Repo: repo, RemoteURL: o.bare, BaseBranch: "main"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func wantKind(t testing.TB, err error, kind Kind, texts ...string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want an *Error", err)
	}
	if e.Kind != kind {
		t.Errorf("kind %s, want %s: %v", e.Kind, kind, err)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error does not say %q: %v", text, err)
		}
	}
}

func TestCheckoutIsKeptAcrossAttempts(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n", "run.sh": "#!/bin/sh\n"})
	w := open(t, Options{})
	first := checkout(t, w, o, nonceA)
	if first.Reused || !filepath.IsAbs(first.Path) || first.BaseSHA != sh(t, o.bare, "rev-parse", "main") {
		t.Errorf("first: %+v", first)
	}
	if _, err := os.Lstat(filepath.Join(first.Path, ".git")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf(".git in the work tree: %v", err)
	}
	put(t, first.Path, "half-done.txt", "x")
	put(t, first.Path, "a.txt", "changed")
	o.change(t, map[string]string{"later.txt": "x"})

	second := checkout(t, w, o, nonceA)
	if !second.Reused || second.Path != first.Path || second.BaseSHA != first.BaseSHA {
		t.Errorf("second: %+v, first: %+v", second, first)
	}
	if got, _ := os.ReadFile(filepath.Join(second.Path, "a.txt")); string(got) != "changed" {
		t.Errorf("a.txt: %q, want the earlier attempt's version", got)
	}
	if other := checkout(t, w, o, nonceB); other.BaseSHA == first.BaseSHA {
		t.Error("the new task did not fetch")
	}
}

func TestCheckoutSurvivesRestartAndHalfMadeOnes(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	dir := t.TempDir()
	c := checkout(t, open(t, Options{Dir: dir}), o, nonceB)
	put(t, c.Path, "kept.txt", "x")
	if again := checkout(t, open(t, Options{Dir: dir}), o, nonceB); !again.Reused {
		t.Error("not reused by the next process")
	}
	// Without its record, the checkout counts as incomplete, and Checkout recreates it.
	if err := os.Remove(filepath.Join(dir, "tasks", nonceB, "task.json")); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "mirrors", "acme", "widgets.git"), "refs/heads/main.lock", "")
	put(t, filepath.Join(dir, "mirrors", "acme", "widgets.git"), "packed-refs.lock", "")
	put(t, filepath.Join(dir, "mirrors", "acme", "widgets.git"), "config.lock", "")
	again := checkout(t, open(t, Options{Dir: dir}), o, nonceB)
	if _, err := os.Lstat(filepath.Join(again.Path, "kept.txt")); again.Reused || err == nil {
		t.Errorf("half-made checkout kept: %+v, %v", again, err)
	}
}

func TestDataDirectoryCanBeMoved(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	dir := filepath.Join(t.TempDir(), "old")
	put(t, checkout(t, open(t, Options{Dir: dir}), o, nonceB).Path, "new.txt", "x")
	moved := dir + "-moved"
	if err := os.Rename(dir, moved); err != nil {
		t.Fatal(err)
	}
	deliver(t, open(t, Options{Dir: moved}), o, nonceB)
}

func TestParallelCheckoutsOfOneRepository(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	w := open(t, Options{})
	var wg sync.WaitGroup
	errs := make([]error, 6)
	for i := range errs {
		wg.Go(func() {
			nonce := "paralle" + string(rune('a'+i))
			_, errs[i] = w.Checkout(t.Context(), Request{
				Nonce: nonce, Repo: repo, RemoteURL: o.bare,
				BaseBranch: "main",
			})
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func TestCheckoutBelongsToOwner(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("root: only root can give files away")
	}
	o := newOrigin(t, map[string]string{"a.txt": "one\n", "sub/b.txt": "two\n"})
	w := open(t, Options{Owner: &Owner{UID: 1234, GID: 2345}})
	c := checkout(t, w, o, nonceB)
	outside := put(t, t.TempDir(), "outside", "x")
	if err := os.Symlink(outside, filepath.Join(c.Path, "link")); err != nil {
		t.Fatal(err)
	}
	put(t, c.Path, "sub/root-made", "x")
	if err := os.Mkdir(filepath.Join(c.Path, "closed"), 0); err != nil {
		t.Fatal(err)
	}
	c = checkout(t, w, o, nonceB)
	for _, name := range []string{".", "a.txt", "sub", "sub/b.txt", "sub/root-made", "link", "closed", ".retake"} {
		if uid, gid := ownerOf(t, filepath.Join(c.Path, name)); uid != 1234 || gid != 2345 {
			t.Errorf("%s belongs to %d:%d", name, uid, gid)
		}
	}
	if uid, _ := ownerOf(t, outside); uid != 0 {
		t.Errorf("the target of a link belongs to %d", uid)
	}
	if uid, _ := ownerOf(t, filepath.Join(w.tasks.at("", nonceB).dir, "git")); uid != 0 {
		t.Errorf("our git directory belongs to %d", uid)
	}
	if info, err := os.Lstat(filepath.Join(c.Path, "closed")); err != nil || info.Mode().Perm() != 0 {
		t.Errorf("mode of the closed folder: %v, %v; want it unchanged", info.Mode(), err)
	}
}

func ownerOf(t *testing.T, path string) (uid, gid uint32) {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	st := info.Sys().(*syscall.Stat_t)
	return st.Uid, st.Gid
}

func TestOwnerThatWeCannotGive(t *testing.T) {
	t.Parallel()
	wantKind(t, checkOwner(&Owner{UID: 1000, GID: 1000}, 1001, 1001), Permanent,
		"run the director as root or as 1000:1000", `"1001:1001"`)
	for _, ok := range []error{checkOwner(nil, 7, 7), checkOwner(&Owner{7, 7}, 7, 7), checkOwner(&Owner{1, 1}, 0, 0)} {
		if ok != nil {
			t.Error(ok)
		}
	}
}

func TestRetakeFolderIsOurs(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	for name, plant := range map[string]func(path string) error{
		"link":    func(p string) error { return os.Symlink(outside, p) },
		"file":    func(p string) error { return os.WriteFile(p, nil, 0o600) },
		"missing": func(string) error { return nil },
		"folder":  func(p string) error { return os.Mkdir(p, 0o700) },
	} {
		dir := t.TempDir()
		if err := plant(filepath.Join(dir, retakeDir)); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(ensureRetakeDir(root), root.Close()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if info, err := os.Lstat(filepath.Join(dir, retakeDir)); err != nil || !info.IsDir() {
			t.Errorf("%s: %v, %v; want a folder", name, info, err)
		}
	}
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a": "1"})
	w := open(t, Options{})
	good := Request{Nonce: nonceB, Repo: repo, RemoteURL: o.bare, BaseBranch: "main"}
	for name, bad := range map[string]func(*Request){
		"nonce":            func(r *Request) { r.Nonce = "../../x" },
		"nonce alphabet":   func(r *Request) { r.Nonce = "K3V9QX2M" },
		"repo":             func(r *Request) { r.Repo = "acme/.." },
		"repo slash":       func(r *Request) { r.Repo = "acme/widgets/more" },
		"repo option":      func(r *Request) { r.Repo = "-x/widgets" },
		"url ext":          func(r *Request) { r.RemoteURL = "ext::sh -c id" },
		"url option":       func(r *Request) { r.RemoteURL = "--upload-pack=touch /tmp/x" },
		"url scheme":       func(r *Request) { r.RemoteURL = "ftp://host/x" },
		"url relative":     func(r *Request) { r.RemoteURL = "some/where" },
		"url ssh option":   func(r *Request) { r.RemoteURL = "ssh://-oProxyCommand=id/x" },
		"url ssh password": func(r *Request) { r.RemoteURL = "ssh://u:hunter2@host/x" },
		"url credentials":  func(r *Request) { r.RemoteURL = "https://u:hunter2@host/x" },
		"url broken":       func(r *Request) { r.RemoteURL = "https://u:hunter2@ho st:x/%zz" },
	} {
		q := good
		bad(&q)
		_, err := w.Checkout(t.Context(), q)
		wantKind(t, errors.Join(err), Permanent)
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error holds the password: %v", name, err)
		}
	}
	if _, err := w.Checkout(t.Context(), good); err != nil {
		t.Fatal(err)
	}
	good.Repo = "acme/other"
	_, err := w.Checkout(t.Context(), good)
	wantKind(t, err, Permanent, "nonce belongs to acme/widgets")
}

func TestDamagedRecord(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a": "1"})
	w := open(t, Options{})
	checkout(t, w, o, nonceB)
	put(t, w.tasks.at("", nonceB).dir, "task.json", `{"version":1`)
	_, err := w.Checkout(t.Context(), Request{Nonce: nonceB, Repo: repo, RemoteURL: o.bare, BaseBranch: "main"})
	wantKind(t, err, Permanent, "damaged", "the work so far is lost")
	if c := checkout(t, w, o, nonceB); !errors.Is(err, ErrLost) || c.Reused {
		t.Errorf("%v, then %+v", err, c)
	}
}
