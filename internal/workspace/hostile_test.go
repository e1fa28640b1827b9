package workspace

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// trap is a program that creates the file sprung if anything runs it.
type trap struct{ program, sprung string }

func newTrap(t *testing.T) trap {
	dir := t.TempDir()
	tr := trap{program: filepath.Join(dir, "trap"), sprung: filepath.Join(dir, "sprung")}
	script := fmt.Sprintf("#!/bin/sh\necho \"$0 $*\" >> %s\ncat\n", tr.sprung)
	if err := os.WriteFile(tr.program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return tr
}

func (tr trap) ran() bool {
	_, err := os.Stat(tr.sprung)
	return err == nil
}

// plant makes dir a repository whose configuration and hooks start the trap at every opportunity.
func (tr trap) plant(t *testing.T, dir string) {
	if _, err := os.Stat(filepath.Join(dir, ".git")); err != nil {
		sh(t, dir, "init", "-q", "-b", "main")
		sh(t, dir, "commit", "-q", "--allow-empty", "-m", "the agent's own")
	}
	for _, key := range []string{
		"core.fsmonitor", "filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "diff.external",
		"core.pager",
		"core.sshCommand", "credential.helper", "core.askPass", "uploadpack.packObjectsHook",
		"core.alternateRefsCommand", "gpg.program",
	} {
		sh(t, dir, "config", key, tr.program)
	}
	for _, hook := range []string{
		"pre-commit", "post-checkout", "post-index-change", "pre-push",
		"reference-transaction", "post-commit", "fsmonitor-watchman",
	} {
		if err := os.MkdirAll(filepath.Join(dir, ".git/hooks"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(tr.program, filepath.Join(dir, ".git/hooks", hook)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNothingPlantedEverRuns first shows, with an ordinary git, that the traps work.
func TestNothingPlantedEverRuns(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	w := open(t, Options{})
	c := checkout(t, w, o, nonceB)
	tr := newTrap(t)
	put(t, c.Path, ".gitattributes", "* filter=evil diff=evil\n")
	put(t, c.Path, ".gitmodules", "[submodule \"x\"]\n\tpath = nested\n\turl = ext::"+tr.program+"\n\tupdate = !"+
		tr.program+"\n")
	put(t, c.Path, "b.txt", "x\n")
	put(t, c.Path, "nested/inner.txt", "x\n")
	tr.plant(t, filepath.Join(c.Path, "nested"))
	tr.plant(t, c.Path)
	cmd := exec.Command("git", "add", "-A")
	cmd.Dir = c.Path
	_ = cmd.Run()
	if !tr.ran() {
		t.Fatal("the trap does not work: this test could not fail")
	}
	if err := os.Remove(tr.sprung); err != nil {
		t.Fatal(err)
	}

	c = checkout(t, w, o, nonceB)
	deliver(t, w, o, nonceB)
	if tr.ran() {
		said, _ := os.ReadFile(tr.sprung)
		t.Errorf("a planted program ran: %s", said)
	}
	if got := o.files(t, branch); got != ".gitattributes\n.gitmodules\na.txt\nb.txt\nnested/inner.txt" {
		t.Errorf("files: %q", got)
	}
	if _, err := os.Stat(filepath.Join(c.Path, ".git/config")); err != nil {
		t.Errorf("the agent's repository is gone: %v", err)
	}
}

// TestUserAndSystemConfigurationIsOff writes a git configuration to the director's home.
func TestUserAndSystemConfigurationIsOff(t *testing.T) {
	tr := newTrap(t)
	home := t.TempDir()
	put(t, home, ".gitconfig", "[core]\n\tfsmonitor = "+tr.program+"\n\thooksPath = "+filepath.Dir(tr.program)+
		"\n[filter \"evil\"]\n\tclean = "+tr.program+"\n[user]\n\tname = Person\n[url \"ext::"+tr.program+
		"\"]\n\tinsteadOf = /\n")
	put(t, home, ".config/git/ignore", "b.txt\n")
	put(t, home, ".config/git/attributes", "* filter=evil\n")
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(home, ".config"))
	t.Setenv("GIT_DIR", "/nonexistent")
	t.Setenv("GIT_CONFIG_COUNT", "1")
	t.Setenv("GIT_CONFIG_KEY_0", "core.fsmonitor")
	t.Setenv("GIT_CONFIG_VALUE_0", tr.program)
	t.Setenv("GIT_EXTERNAL_DIFF", tr.program)
	t.Setenv("GIT_SSH", tr.program)
	w := open(t, Options{})
	put(t, checkout(t, w, o, nonceB).Path, "b.txt", "x")
	deliver(t, w, o, nonceB)
	if tr.ran() {
		t.Error("a program of the user's configuration ran")
	}
}

// TestNestedRepositoriesArriveAsFiles: with and without commits, with a .git file, and instead of a submodule. Check
// gets the .git of each nested repository with files of the delivery.
func TestNestedRepositoriesArriveAsFiles(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	// A base with a submodule.
	sub := newOrigin(t, map[string]string{"s.txt": "x"})
	sh(t, o.clone, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", sub.bare, "module")
	base := o.change(t, nil)
	w := open(t, Options{})
	c := checkout(t, w, o, nonceB)
	tr := newTrap(t)
	tr.plant(t, filepath.Join(c.Path, "module"))
	put(t, c.Path, "module/changed.txt", "x")
	put(t, c.Path, "with/x.txt", "x")
	sh(t, filepath.Join(c.Path, "with"), "init", "-q")
	sh(t, filepath.Join(c.Path, "with"), "commit", "-q", "--allow-empty", "-m", "x")
	put(t, c.Path, "empty/y.txt", "x")
	sh(t, filepath.Join(c.Path, "empty"), "init", "-q")
	put(t, c.Path, "pointer/z.txt", "x")
	put(t, c.Path, "pointer/.git", "gitdir: /nonexistent\n")
	put(t, c.Path, "shout/.GIT/config", "[core]\n")
	put(t, c.Path, "ignored/deep/.gitignore", "*")
	put(t, c.Path, "ignored/deep/out/.git/HEAD", "x")
	put(t, c.Path, "ignored/deep/out/a.o", "x")
	put(t, c.Path, ".git/HEAD", "x") // the agent made the checkout a repository
	wantSeen(t, looked(t, w, o), "empty/.git ()", "module/changed.txt (module)", "pointer/.git ()", "shout/.GIT ()",
		"with/.git ()")
	if got := sh(t, o.bare, "diff", "--raw", "--abbrev=4", "--name-status", base,
		branch); got != "A\tempty/y.txt\nA\tpointer/z.txt\nA\twith/x.txt" {
		t.Errorf("differs from the base in\n%s", got)
	}
	if tr.ran() {
		t.Error("a nested repository's program ran")
	}
}

func TestHostileTree(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n", "was-folder/x.txt": "x\n"})
	w := open(t, Options{})
	c := checkout(t, w, o, nonceB)
	secret := put(t, t.TempDir(), "secret", "TOP SECRET")
	path := func(name string) string { return filepath.Join(c.Path, name) }
	put(t, c.Path, "-rf", "x")
	put(t, c.Path, "--exec=id", "x")
	put(t, c.Path, ":(top)magic", "x")
	put(t, c.Path, "line\nbreak \"quoted\" \xff", "x")
	put(t, c.Path, "closed/inside.txt", "x")
	put(t, c.Path, "unreadable.txt", "x")
	err := errors.Join(
		os.Symlink(secret, path("link-out")),
		os.Symlink(filepath.Dir(secret), path("folder-out")),
		os.RemoveAll(path("was-folder")),
		os.Symlink(filepath.Dir(secret), path("was-folder")),
		os.Symlink("loop", path("loop")),
		os.Link(path("a.txt"), path("hard")),
		syscall.Mkfifo(path("pipe"), 0o600),
		os.Chmod(path("unreadable.txt"), 0),
		os.Chmod(path("closed"), 0),
		os.Chmod(path("a.txt"), 0o6755),
	)
	if err != nil {
		t.Fatal(err)
	}
	deliver(t, w, o, nonceB)
	names := strings.Split(strings.TrimSuffix(sh(t, o.bare, "ls-tree", "-r", "-z", "--name-only", branch), "\x00"),
		"\x00")
	want := []string{
		"--exec=id", "-rf", ":(top)magic", "a.txt", "closed/inside.txt", "folder-out", "hard",
		"line\nbreak \"quoted\" \xff", "link-out", "loop", "unreadable.txt", "was-folder",
	}
	if fmt.Sprintf("%q", names) != fmt.Sprintf("%q", want) {
		t.Errorf("names:\n%q\nwant\n%q", names, want)
	}
	if got := sh(t, o.bare, "cat-file", "blob", branch+":link-out"); got != secret {
		t.Errorf("link stored as %q", got)
	}
	if got := sh(t, o.bare, "log", "--format=%H", "-STOP SECRET", branch); got != "" {
		t.Errorf("the secret outside was committed: %s", got)
	}
	if err := w.Remove(t.Context(), nonceB); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(secret); err != nil || string(got) != "TOP SECRET" {
		t.Errorf("file outside of the tree: %q, %v", got, err)
	}
}

func TestManyFiles(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	w := open(t, Options{})
	c := checkout(t, w, o, nonceB)
	const n = 2000
	for i := range n {
		put(t, c.Path, fmt.Sprintf("many/%d/%d.txt", i/100, i), "x")
	}
	if d := deliver(t, w, o, nonceB); d.ChangedFiles != n {
		t.Errorf("%+v", d)
	}
}
