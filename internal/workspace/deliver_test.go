package workspace

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const branch = "retake/21-a1"

func request(o origin, nonce string) DeliverRequest {
	return DeliverRequest{
		Nonce: nonce, RemoteURL: o.bare, Branch: branch, BaseBranch: "main",
		Message: "Fix the parser\n\nFor #21", AuthoredAt: authored, Check: unchecked,
	}
}

func unchecked(context.Context, *Patch) error { return nil }

func deliver(t testing.TB, w *Workspaces, o origin, nonce string) Delivery {
	t.Helper()
	d, err := w.Deliver(t.Context(), request(o, nonce))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDeliver(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n", "gone.txt": "x\n", ".gitignore": "*.log\n"})
	w := open(t, Options{})
	c := checkout(t, w, o, nonceB)
	put(t, c.Path, "a.txt", "two\n")
	put(t, c.Path, "new/b.txt", "new\n")
	put(t, c.Path, "build.log", "ignored")
	put(t, c.Path, ".retake/attempt.json", "{}")
	if err := errors.Join(os.Remove(filepath.Join(c.Path, "gone.txt")), os.Chmod(filepath.Join(c.Path, "new/b.txt"),
		0o4755)); err != nil {
		t.Fatal(err)
	}
	d := deliver(t, w, o, nonceB)
	if d.Branch != branch || d.ChangedFiles != 3 || d.SHA != sh(t, o.bare, "rev-parse", branch) {
		t.Errorf("%+v", d)
	}
	if got := o.files(t, branch); got != ".gitignore\na.txt\nnew/b.txt" {
		t.Errorf("files: %q", got)
	}
	if got := sh(t, o.bare, "ls-tree", branch, "new/b.txt"); !strings.HasPrefix(got, "100755 ") {
		t.Errorf("mode: %s", got)
	}
	want := "Retake <retake@users.noreply.github.com> 1795255200 +0000|Retake <retake@users.noreply.github.com> " +
		"1795255200 +0000|" + c.BaseSHA + "|Fix the parser\n\nFor #21\n"
	if got := sh(t, o.bare, "log", "-1", "--date=raw", "--format=%an <%ae> %ad|%cn <%ce> %cd|%P|%B",
		branch); got != want {
		t.Errorf("commit:\n%s\nwant\n%s", got, want)
	}
	for _, left := range []string{"stage", "index"} {
		if _, err := os.Lstat(filepath.Join(w.tasks.at("", nonceB).dir, left)); err == nil {
			t.Errorf("%s remains", left)
		}
	}
}

func TestDeliverIsIdempotent(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	dir := t.TempDir()
	w := open(t, Options{Dir: dir})
	put(t, checkout(t, w, o, nonceB).Path, "b.txt", "x")
	first := deliver(t, w, o, nonceB)
	// The push succeeded, but the director died before it recorded the push. The next process delivers again.
	task := loaded(t, w, nonceB)
	task.rec.Pushed = nil
	if err := task.save(); err != nil {
		t.Fatal(err)
	}
	o.change(t, map[string]string{"later.txt": "main moved"})
	if again := deliver(t, open(t, Options{Dir: dir}), o, nonceB); again != first {
		t.Errorf("again %+v, first %+v", again, first)
	}
	if n := sh(t, o.bare, "for-each-ref", "--format=%(refname)", "refs/heads/"); n != "refs/heads/main\nrefs/heads/"+
		branch {
		t.Errorf("branches: %s", n)
	}
}

func TestDeliverReplacesOnlyItsOwnBranch(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	w := open(t, Options{})
	c := checkout(t, w, o, nonceB)
	put(t, c.Path, "b.txt", "x")
	deliver(t, w, o, nonceB)
	put(t, c.Path, "b.txt", "better")
	second := deliver(t, w, o, nonceB)
	if second.Branch != branch || sh(t, o.bare, "show", branch+":b.txt") != "better" {
		t.Errorf("ours was not replaced: %+v", second)
	}
	// Another claim of the same issue numbers its attempts from 1 again.
	other := checkout(t, w, o, "bbbbbbb3")
	put(t, other.Path, "c.txt", "other")
	d := deliver(t, w, o, "bbbbbbb3")
	if d.Branch != branch+"-bbbbbbb3" || sh(t, o.bare, "rev-parse", branch) != second.SHA {
		t.Errorf("%+v; %s must still be %s", d, branch, second.SHA)
	}
	if again := deliver(t, w, o, "bbbbbbb3"); again != d {
		t.Errorf("again %+v, first %+v", again, d)
	}
	// A person has taken even that name.
	sh(t, o.bare, "branch", "-f", branch+"-bbbbbbb3", "main")
	put(t, other.Path, "c.txt", "newer")
	_, err := w.Deliver(t.Context(), request(o, "bbbbbbb3"))
	wantKind(t, err, Conflict, branch+"-bbbbbbb3")
}

func TestNothingToDeliver(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n", ".gitignore": "*.log\n"})
	w := open(t, Options{})
	c := checkout(t, w, o, nonceB)
	put(t, c.Path, "x.log", "ignored")
	put(t, c.Path, ".retake/spool", "ours")
	put(t, c.Path, ".git/config", "[core]\n")
	if _, err := w.Deliver(t.Context(), request(o, nonceB)); !errors.Is(err, ErrNothingToDeliver) {
		t.Errorf("got %v", err)
	}
	if _, err := w.Deliver(t.Context(), request(o, "ccccccc4")); !errors.Is(err, ErrNoCheckout) {
		t.Errorf("without a checkout: %v", err)
	}
}

func TestEverythingDeleted(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n", "d/b.txt": "x"})
	w := open(t, Options{})
	c := checkout(t, w, o, nonceB)
	if err := errors.Join(os.Remove(filepath.Join(c.Path, "a.txt")),
		os.RemoveAll(filepath.Join(c.Path, "d"))); err != nil {
		t.Fatal(err)
	}
	if d := deliver(t, w, o, nonceB); d.ChangedFiles != 2 || o.files(t, branch) != "" {
		t.Errorf("%+v: %s", d, o.files(t, branch))
	}
}

// TestRetakeIsNeverCommitted covers an ignore file that re-includes the directory, and a base with such a directory.
func TestRetakeIsNeverCommitted(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n", ".gitignore": "!.retake/\n!.retake/**\n"})
	w := open(t, Options{})
	c := checkout(t, w, o, nonceB)
	put(t, c.Path, ".retake/attempt.json", "secret")
	put(t, c.Path, "b.txt", "x")
	deliver(t, w, o, nonceB)
	if got := o.files(t, branch); strings.Contains(got, ".retake") {
		t.Errorf("files: %s", got)
	}

	o.change(t, map[string]string{".retake/of-the-base": "theirs"})
	c = checkout(t, w, o, "bbbbbbb3")
	put(t, c.Path, "b.txt", "x")
	if err := os.RemoveAll(filepath.Join(c.Path, ".retake")); err != nil {
		t.Fatal(err)
	}
	put(t, c.Path, ".retake/attempt.json", "secret")
	d := deliver(t, w, o, "bbbbbbb3")
	if got := sh(t, o.bare, "diff", "--name-status", "main", d.Branch); got != "A\tb.txt" {
		t.Errorf("differs from the base in %q", got)
	}
}

// TestBytesAreDeliveredAsTheyLie: attributes that convert content have no effect on checkout or commit.
func TestBytesAreDeliveredAsTheyLie(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"unix.txt": "a\nb\n", "win.bat": "a\nb\n", "id.txt": "$Id$\n"})
	put(t, o.clone, ".git/info/attributes", "* -text\n")
	o.change(t, map[string]string{".gitattributes": "* text=auto eol=crlf\nid.txt ident\n*.utf text " +
		"working-tree-encoding=NO-SUCH\n", "crlf.txt": "a\r\nb\r\n"})
	w := open(t, Options{})
	c := checkout(t, w, o, nonceB)
	for name, want := range map[string]string{
		"unix.txt": "a\nb\n", "win.bat": "a\nb\n", "id.txt": "$Id$\n",
		"crlf.txt": "a\r\nb\r\n",
	} {
		if got, _ := os.ReadFile(filepath.Join(c.Path, name)); string(got) != want {
			t.Errorf("%s checked out as %q", name, got)
		}
	}
	put(t, c.Path, "new.utf", "\r\nx")
	if d := deliver(t, w, o, nonceB); d.ChangedFiles != 1 {
		t.Errorf("%+v: untouched files differ", d)
	}
	if got := sh(t, o.bare, "cat-file", "-s", branch+":new.utf"); got != "3" {
		t.Errorf("size %s", got)
	}
}

func TestMessagesOfAnyKind(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	w := open(t, Options{})
	put(t, checkout(t, w, o, nonceB).Path, "b.txt", "x")
	for message, want := range map[string]string{
		"": "Retake", "#1 stays in the message": "#1 stays in the message",
		"nul\x00 \xff": "nul ?", "-rf": "-rf",
	} {
		q := request(o, nonceB)
		q.Message = message
		d, err := w.Deliver(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSpace(sh(t, o.bare, "log", "-1", "--format=%B", d.SHA)); got != want {
			t.Errorf("%q became %q", message, got)
		}
	}
}

func TestDeliverRefusesTheBaseBranch(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	w := open(t, Options{})
	put(t, checkout(t, w, o, nonceB).Path, "b.txt", "x")
	q := request(o, nonceB)
	q.Branch = "main"
	_, err := w.Deliver(t.Context(), q)
	wantKind(t, err, Permanent)
}
