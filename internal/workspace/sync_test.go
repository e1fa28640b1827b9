package workspace

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// lines returns a file of ten lines, some of them changed.
func lines(changed map[int]string) string {
	var b strings.Builder
	for i := range 10 {
		text := changed[i]
		if text == "" {
			text = "line " + string(rune('0'+i))
		}
		b.WriteString(text + "\n")
	}
	return b.String()
}

func syncRequest(o origin) Request {
	return Request{Nonce: nonceB, Repo: repo, RemoteURL: o.bare, BaseBranch: "main"}
}

func mustSync(t testing.TB, w *Workspaces, o origin) Synced {
	t.Helper()
	s, err := w.Sync(t.Context(), syncRequest(o), SyncOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// tree lists a checkout as path → content, "-> target" for links, "exec " before executable files.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if d.Type() == fs.ModeSymlink {
			target, err := os.Readlink(path)
			files[name] = "-> " + target
			return err
		}
		data, err := os.ReadFile(path)
		files[name] = string(data)
		if info, err := d.Info(); err == nil && info.Mode()&0o100 != 0 {
			files[name] = "exec " + files[name]
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func sameTree(t testing.TB, dir string, want map[string]string) {
	t.Helper()
	got := tree(t, dir)
	names := slices.Collect(maps.Keys(got))
	for name := range want {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		g, inGot := got[name]
		w, inWant := want[name]
		if g != w || inGot != inWant {
			t.Errorf("%s: there %t, %q; want %t, %q", name, inGot, g, inWant, w)
		}
	}
}

// changeEveryWay commits one change of every kind to the base branch.
func changeEveryWay(t *testing.T, o origin) (head string) {
	t.Helper()
	if err := errors.Join(
		os.Remove(filepath.Join(o.clone, "removed.txt")), os.RemoveAll(filepath.Join(o.clone, "dir")),
		os.Remove(filepath.Join(o.clone, "becomes-link")),
		os.Symlink("theirs.txt", filepath.Join(o.clone, "becomes-link")),
		os.Remove(filepath.Join(o.clone, "becomes-folder")), os.RemoveAll(filepath.Join(o.clone, "folder")),
		os.Chmod(filepath.Join(o.clone, "run.sh"), 0o755),
	); err != nil {
		t.Fatal(err)
	}
	return o.change(t, map[string]string{
		"both.txt": lines(map[int]string{8: "theirs"}), "theirs.txt": "new\n", "becomes-folder/x": "x\n",
		"folder":          "file now\n",
		"deep/er/new.txt": "new\n", ".retake/theirs": "the repository's own\n",
	})
}

func TestSyncKeepsTheAgentsWork(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{
		"both.txt": lines(nil), "theirs.txt": "old\n", "removed.txt": "x\n", "dir/only.txt": "x\n", "run.sh": "old\n",
		"becomes-link": "x\n", "becomes-folder": "x\n", "folder/becomes-file": "x\n", "untouched.txt": "x\n",
		".gitignore": "*.log\ncache/\n",
	})
	w := open(t, Options{})
	c := checkout(t, w, o, nonceB)

	// The agent edits a file, adds one, removes one, and adds an ignored one, which must never become part of a commit.
	put(t, c.Path, "both.txt", lines(map[int]string{1: "agent's"}))
	put(t, c.Path, "new/by-agent.txt", "agent\n")
	put(t, c.Path, "build.log", "ignored\n")
	put(t, c.Path, "cache/object", "ignored\n")
	put(t, c.Path, ".retake/attempt.json", "{}")
	if err := os.Remove(filepath.Join(c.Path, "untouched.txt")); err != nil {
		t.Fatal(err)
	}

	head := changeEveryWay(t, o)
	if s := mustSync(t, w, o); !reflect.DeepEqual(s, Synced{From: c.BaseSHA, To: head, Merged: true}) {
		t.Errorf("%+v", s)
	}
	sameTree(t, c.Path, map[string]string{
		"both.txt": lines(map[int]string{1: "agent's", 8: "theirs"}), "theirs.txt": "new\n", "run.sh": "exec old\n",
		"becomes-link": "-> theirs.txt", "becomes-folder/x": "x\n", "folder": "file now\n", "deep/er/new.txt": "new\n",
		".gitignore":       "*.log\ncache/\n",
		"new/by-agent.txt": "agent\n", "build.log": "ignored\n", "cache/object": "ignored\n",
		".retake/attempt.json": "{}",
	})
	if _, err := os.Lstat(filepath.Join(c.Path, "dir")); err == nil {
		t.Error("a folder without files stayed")
	}
	for _, left := range []string{"stage", "index"} {
		if _, err := os.Lstat(filepath.Join(w.tasks.at("", nonceB).dir, left)); err == nil {
			t.Errorf("%s remains", left)
		}
	}

	again := checkout(t, w, o, nonceB)
	if !again.Reused || again.BaseSHA != head {
		t.Errorf("%+v, want %s as the base", again, head)
	}
	d := deliver(t, w, o, nonceB)
	if got := sh(t, o.bare, "rev-parse", branch+"^"); got != head || d.ChangedFiles != 3 {
		t.Errorf("delivered %+v on %s, want on %s", d, got, head)
	}
	if got := sh(t, o.bare, "diff", "--name-status", head, branch); got != "M\tboth.txt\nA\tnew/by-agent.txt\n"+
		"D\tuntouched.txt" {
		t.Errorf("delivered changes:\n%s", got)
	}
	if got := sh(t, w.tasks.at("", nonceB).gitDir, "show", "refs/retake/before/"+head+":both.txt"); got+
		"\n" != lines(map[int]string{1: "agent's"}) {
		t.Errorf("earlier state: %s", got)
	}
	if s := mustSync(t, w, o); !reflect.DeepEqual(s, Synced{From: head, To: head}) {
		t.Errorf("again: %+v", s)
	}
}

// TestSyncConflict: the error names the files, and the work tree stays unchanged.
func TestSyncConflict(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": lines(nil), "b.txt": "x\n", "c.txt": "x\n", "d": "x\n"})
	w := open(t, Options{})
	c := checkout(t, w, o, nonceB)
	put(t, c.Path, "a.txt", lines(map[int]string{4: "agent's"}))
	put(t, c.Path, "new\nline.txt", "agent's\n")
	put(t, c.Path, "c.txt", "agent's\n")
	if err := os.Remove(filepath.Join(c.Path, "b.txt")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(o.clone, "c.txt")); err != nil {
		t.Fatal(err)
	}
	o.change(t, map[string]string{
		"a.txt": lines(map[int]string{4: "theirs"}), "b.txt": "theirs\n",
		"new\nline.txt": "theirs\n", "d": "fine\n",
	})
	before := tree(t, c.Path)
	_, err := w.Sync(t.Context(), syncRequest(o), SyncOptions{})
	wantKind(t, err, Conflict, `a.txt, b.txt, c.txt, "new\nline.txt"`, "policy.sync_main")
	if !errors.Is(err, ErrMergeConflict) {
		t.Error(err)
	}
	sameTree(t, c.Path, before)
	if again := checkout(t, w, o, nonceB); again.BaseSHA != c.BaseSHA {
		t.Errorf("the base moved to %s", again.BaseSHA)
	}
	deliver(t, w, o, nonceB) // still possible on the old base
}

func TestConflictOfManyFiles(t *testing.T) {
	t.Parallel()
	var files []string
	for i := range 30 {
		files = append(files, "f"+string(rune('A'+i)))
	}
	if err := conflict("sync", append(files, files...)); !strings.Contains(err.Error(), "fJ and 20 more") {
		t.Error(err)
	}
}

// TestSyncFollowsRenames: the agent's edit follows a file that the base branch moved, and its new file follows a
// moved directory.
func TestSyncFollowsRenames(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"old/a.txt": lines(nil), "old/b.txt": lines(map[int]string{0: "b"})})
	w := open(t, Options{})
	dir := checkout(t, w, o, nonceB).Path
	put(t, dir, "old/a.txt", lines(map[int]string{5: "agent's"}))
	put(t, dir, "old/c.txt", "agent's\n")
	sh(t, o.clone, "mv", "old", "moved")
	o.change(t, nil)
	mustSync(t, w, o)
	sameTree(t, dir, map[string]string{
		"moved/a.txt": lines(map[int]string{5: "agent's"}), "moved/b.txt": lines(map[int]string{0: "b"}),
		"moved/c.txt": "agent's\n",
	})
}

// TestSyncAfterTheBranchWasRewritten: dropped commits of the branch do not reappear as the agent's work.
func TestSyncAfterTheBranchWasRewritten(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	first := sh(t, o.clone, "rev-parse", "HEAD")
	o.change(t, map[string]string{"dropped.txt": "x\n"})
	w := open(t, Options{})
	dir := checkout(t, w, o, nonceB).Path
	put(t, dir, "agent.txt", "x\n")
	sh(t, o.clone, "reset", "-q", "--hard", first)
	put(t, o.clone, "instead.txt", "x\n")
	sh(t, o.clone, "add", "-A")
	sh(t, o.clone, "commit", "-q", "-m", "instead")
	sh(t, o.clone, "push", "-q", "--force", "origin", "main")
	mustSync(t, w, o)
	sameTree(t, dir, map[string]string{"a.txt": "one\n", "instead.txt": "x\n", "agent.txt": "x\n"})
	deliver(t, w, o, nonceB)
	if got := o.files(t, branch); got != "a.txt\nagent.txt\ninstead.txt" {
		t.Errorf("delivered %q", got)
	}
}

func TestSyncOfSubmodules(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	sub := newOrigin(t, map[string]string{"s.txt": "x"})
	add := func(name string) {
		sh(t, o.clone, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", sub.bare, name)
	}
	add("stays")
	add("goes")
	o.change(t, nil)
	w := open(t, Options{})
	dir := checkout(t, w, o, nonceB).Path
	put(t, dir, "agent.txt", "x\n")
	sh(t, o.clone, "rm", "-q", "-f", "goes")
	add("comes")
	next := sub.change(t, map[string]string{"s.txt": "y"})
	sh(t, filepath.Join(o.clone, "stays"), "fetch", "-q")
	sh(t, filepath.Join(o.clone, "stays"), "checkout", "-q", next)
	head := o.change(t, nil)
	mustSync(t, w, o)
	if info, err := os.Lstat(filepath.Join(dir, "comes")); err != nil || !info.IsDir() {
		t.Errorf("comes: %v, %v", info, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "goes")); err == nil {
		t.Error("goes still exists")
	}
	deliver(t, w, o, nonceB)
	if got := sh(t, o.bare, "diff", "--name-status", head, branch); got != "A\tagent.txt" {
		t.Errorf("delivered:\n%s", got)
	}
}

func TestSyncedFilesBelongToTheOwner(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("root: only root can give files away")
	}
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	w := open(t, Options{Owner: &Owner{UID: 1234, GID: 2345}})
	dir := checkout(t, w, o, nonceB).Path
	o.change(t, map[string]string{"a.txt": "two\n", "sub/b.txt": "x\n"})
	mustSync(t, w, o)
	for _, name := range []string{".", "a.txt", "sub", "sub/b.txt"} {
		if uid, gid := ownerOf(t, filepath.Join(dir, name)); uid != 1234 || gid != 2345 {
			t.Errorf("%s belongs to %d:%d", name, uid, gid)
		}
	}
}

func TestSyncRunsNothingPlanted(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": lines(nil)})
	w := open(t, Options{})
	dir := checkout(t, w, o, nonceB).Path
	tr := newTrap(t)
	put(t, dir, ".gitattributes", "* filter=evil merge=evil diff=evil\n")
	put(t, dir, "a.txt", lines(map[int]string{1: "agent's"}))
	put(t, dir, "nested/x.txt", "x\n")
	tr.plant(t, filepath.Join(dir, "nested"))
	tr.plant(t, dir)
	sh(t, dir, "config", "merge.evil.driver", tr.program)
	_ = os.Remove(tr.sprung)
	o.change(t, map[string]string{"a.txt": lines(map[int]string{8: "theirs"})})
	mustSync(t, w, o)
	if tr.ran() {
		said, _ := os.ReadFile(tr.sprung)
		t.Errorf("a planted program ran: %s", said)
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "a.txt")); string(got) != lines(map[int]string{
		1: "agent's",
		8: "theirs",
	}) {
		t.Errorf("a.txt: %s", got)
	}
}

// TestSyncWithAnOldGit: the error names the version, and the other operations work.
func TestSyncWithAnOldGit(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	w := open(t, Options{})
	w.tasks.git.merges = false
	put(t, checkout(t, w, o, nonceB).Path, "b.txt", "x")
	if s := mustSync(t, w, o); s.Merged {
		t.Errorf("%+v", s)
	}
	o.change(t, map[string]string{"c.txt": "x\n"})
	_, err := w.Sync(t.Context(), syncRequest(o), SyncOptions{})
	wantKind(t, err, Permanent, "install git 2.38")
	if !errors.Is(err, ErrCannotMerge) {
		t.Error(err)
	}
	deliver(t, w, o, nonceB)
}

func TestSyncOfNothing(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	w := open(t, Options{})
	if _, err := w.Sync(t.Context(), syncRequest(o), SyncOptions{}); !errors.Is(err, ErrNoCheckout) {
		t.Error(err)
	}
	checkout(t, w, o, nonceB)
	o.change(t, map[string]string{"b.txt": "x\n"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := w.Sync(ctx, syncRequest(o), SyncOptions{})
	wantKind(t, err, Transient)
	mustSync(t, w, o)
	if _, err := w.Deliver(t.Context(), request(o, nonceB)); !errors.Is(err, ErrNothingToDeliver) {
		t.Errorf("the base's changes count as work of the agent: %v", err)
	}
}
