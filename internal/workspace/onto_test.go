package workspace

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// delivered returns a task after the push of its first attempt.
func delivered(t *testing.T, w *Workspaces) (o origin, dir string, first Delivery) {
	t.Helper()
	o = newOrigin(t, map[string]string{"a.txt": lines(nil), ".gitignore": "*.log\n"})
	dir = checkout(t, w, o, nonceB).Path
	put(t, dir, "a.txt", lines(map[int]string{1: "agent's"}))
	return o, dir, deliver(t, w, o, nonceB)
}

// push commits files to a branch as a person would.
func (o origin) push(t *testing.T, branch string, files map[string]string) string {
	t.Helper()
	sh(t, o.clone, "fetch", "-q", "origin")
	sh(t, o.clone, "checkout", "-q", "-B", "theirs", "origin/"+branch)
	for name, text := range files {
		put(t, o.clone, name, text)
	}
	sh(t, o.clone, "add", "-A", "-f")
	sh(t, o.clone, "commit", "-q", "-m", "a person's")
	sh(t, o.clone, "push", "-q", "origin", "HEAD:"+branch)
	head := sh(t, o.clone, "rev-parse", "HEAD")
	sh(t, o.clone, "checkout", "-q", "main")
	return head
}

func deliverOnto(t *testing.T, w *Workspaces, o origin, onto string) Delivery {
	t.Helper()
	q := request(o, nonceB)
	q.Onto = onto
	d, err := w.Deliver(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if got := sh(t, o.bare, "rev-parse", branch); got != d.SHA || d.Branch != branch {
		t.Errorf("%+v, but the branch is at %s", d, got)
	}
	return d
}

func join(t *testing.T, w *Workspaces, o origin) Synced {
	t.Helper()
	s, err := w.Join(t.Context(), syncRequest(o), branch)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (o origin) parents(t *testing.T, sha string) []string {
	return strings.Fields(sh(t, o.bare, "log", "-1", "--format=%P", sha))
}

// TestFollowUpIsAChild: the branch moves forward, with the base as a second parent after a merge of the base.
func TestFollowUpIsAChild(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := open(t, Options{Dir: dir})
	o, work, first := delivered(t, w)

	if same := deliverOnto(t, w, o, first.SHA); same != first {
		t.Errorf("without changes: %+v, want %+v", same, first)
	}
	put(t, work, "b.txt", "second\n")
	second := deliverOnto(t, w, o, first.SHA)
	if got := o.parents(t, second.SHA); !slices.Equal(got, []string{first.SHA}) || second.ChangedFiles != 2 {
		t.Errorf("%+v on %v, want on %s", second, got, first.SHA)
	}
	// The director was killed right after its push, so its record has only the first push.
	if again := deliverOnto(t, open(t, Options{Dir: dir}), o, first.SHA); again != second {
		t.Errorf("again: %+v, want %+v", again, second)
	}
	// The same holds if another attempt has worked since.
	put(t, work, "b.txt", "third\n")
	third := deliverOnto(t, w, o, first.SHA)
	if got := o.parents(t, third.SHA); !slices.Equal(got, []string{second.SHA}) {
		t.Errorf("third on %v, want on %s", got, second.SHA)
	}

	head := o.change(t, map[string]string{"news.txt": "theirs\n"})
	mustSync(t, w, o)
	merged := deliverOnto(t, w, o, third.SHA)
	if got := o.parents(t, merged.SHA); !slices.Equal(got, []string{third.SHA, head}) || merged.ChangedFiles != 2 {
		t.Errorf("%+v on %v, want on %s and %s", merged, got, third.SHA, head)
	}
	put(t, work, "c.txt", "fifth\n")
	if got := o.parents(t, deliverOnto(t, w, o, merged.SHA).SHA); !slices.Equal(got, []string{merged.SHA}) {
		t.Errorf("the base was merged before: on %v, want on %s", got, merged.SHA)
	}
}

// TestPeoplesCommitsAreKept: Join merges them into the work, and a push never overwrites them.
func TestPeoplesCommitsAreKept(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	o, work, first := delivered(t, w)
	if s := join(t, w, o); !reflect.DeepEqual(s, Synced{From: first.SHA, To: first.SHA}) {
		t.Errorf("without new commits: %+v", s)
	}
	put(t, work, "mine.txt", "agent's\n")
	theirs := o.push(t, branch, map[string]string{
		"a.txt":      lines(map[int]string{1: "agent's", 8: "a person's"}),
		"theirs.txt": "x\n", "forced.log": "x\n",
	})
	q := request(o, nonceB)
	q.Onto = first.SHA
	_, err := w.Deliver(t.Context(), q)
	if wantKind(t, err, Transient, branch+" has new commits"); !errors.Is(err, ErrBranchMoved) {
		t.Error(err)
	}
	if got := sh(t, o.bare, "rev-parse", branch); got != theirs {
		t.Fatalf("the branch is at %s, want %s", got, theirs)
	}
	if s := join(t, w, o); !reflect.DeepEqual(s, Synced{From: first.SHA, To: theirs, Merged: true}) {
		t.Errorf("%+v", s)
	}
	if s := join(t, w, o); !reflect.DeepEqual(s, Synced{From: theirs, To: theirs}) {
		t.Errorf("again: %+v", s)
	}
	sameTree(t, work, map[string]string{
		"a.txt": lines(map[int]string{1: "agent's", 8: "a person's"}), "theirs.txt": "x\n", "forced.log": "x\n",
		"mine.txt": "agent's\n", ".gitignore": "*.log\n",
	})
	var seen []string
	q.Check = func(ctx context.Context, p *Patch) error {
		files, err := p.Files(ctx)
		for _, f := range files {
			seen = append(seen, f.Path)
		}
		return err
	}
	d, err := w.Deliver(t.Context(), q) // onto either commit
	if err != nil || !slices.Equal(o.parents(t, d.SHA), []string{theirs}) || !slices.Equal(seen, []string{"mine.txt"}) {
		t.Fatalf("%+v, %v, on %v; saw %q", d, err, o.parents(t, d.SHA), seen)
	}
	if got := o.files(t, branch); got != ".gitignore\na.txt\nforced.log\nmine.txt\ntheirs.txt" {
		t.Errorf("delivered %q", got)
	}
}

// TestPeopleMergedTheBase: the merged changes count as part of the base, not as our work.
func TestPeopleMergedTheBase(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	o, work, first := delivered(t, w)
	head := o.change(t, map[string]string{
		".github/workflows/ci.yml": "x\n",
		"a.txt":                    lines(map[int]string{8: "theirs"}),
	})
	sh(t, o.clone, "fetch", "-q", "origin")
	sh(t, o.clone, "checkout", "-q", "-B", "theirs", "origin/"+branch)
	sh(t, o.clone, "merge", "-q", "-m", "Merge main", head)
	sh(t, o.clone, "push", "-q", "origin", "HEAD:"+branch)
	merged := sh(t, o.clone, "rev-parse", "HEAD")
	sh(t, o.clone, "checkout", "-q", "main")
	put(t, work, "mine.txt", "agent's\n")
	if s := join(t, w, o); !s.Merged || s.To != merged {
		t.Errorf("%+v", s)
	}
	if c := checkout(t, w, o, nonceB); c.BaseSHA != head {
		t.Errorf("base %s, want %s", c.BaseSHA, head)
	}
	d := deliverOnto(t, w, o, first.SHA)
	if got := o.parents(t, d.SHA); !slices.Equal(got, []string{merged}) || d.ChangedFiles != 2 {
		t.Errorf("%+v on %v, want 2 files on %s", d, got, merged)
	}
}

// TestJoinLeavesConflicts as Sync does, and Deliver refuses them.
func TestJoinLeavesConflicts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := open(t, Options{Dir: dir})
	o, work, first := delivered(t, w)
	put(t, work, "a.txt", lines(map[int]string{1: "agent's second"}))
	theirs := o.push(t, branch, map[string]string{"a.txt": lines(map[int]string{1: "a person's"})})
	want := Synced{
		From: first.SHA, To: theirs, Merged: true, Conflicts: []string{"a.txt"},
		Left: []string{"a.txt: has conflict markers"},
	}
	if s := join(t, w, o); !reflect.DeepEqual(s, want) {
		t.Errorf("%+v, want %+v", s, want)
	}
	want.From, want.Merged = theirs, false
	if s := join(t, open(t, Options{Dir: dir}), o); !reflect.DeepEqual(s, want) {
		t.Errorf("again: %+v, want %+v", s, want)
	}
	text, _ := os.ReadFile(filepath.Join(work, "a.txt"))
	if !strings.Contains(string(text), "<<<<<<< this-task\nagent's second\n=======\na person's\n>>>>>>> "+
		"pushed-by-others\n") {
		t.Errorf("%s", text)
	}
	q := request(o, nonceB)
	q.Onto = theirs
	_, err := w.Deliver(t.Context(), q)
	wantKind(t, err, Conflict, "conflict markers (<<<<<<<) remain in a.txt")
	put(t, work, "a.txt", lines(map[int]string{1: "both"}))
	if got := o.parents(t, deliverOnto(t, w, o, theirs).SHA); !slices.Equal(got, []string{theirs}) {
		t.Errorf("on %v, want %s", got, theirs)
	}
}

// TestJoinOfSubmodules: both sides moved a submodule, to different commits that are not fetched.
func TestJoinOfSubmodules(t *testing.T) {
	t.Parallel()
	sub := newOrigin(t, map[string]string{"s.txt": "1"})
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	sh(t, o.clone, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", sub.bare, "sub")
	o.change(t, nil)
	moveTo := func(text string) {
		next := sub.change(t, map[string]string{"s.txt": text})
		sh(t, filepath.Join(o.clone, "sub"), "fetch", "-q")
		sh(t, filepath.Join(o.clone, "sub"), "checkout", "-q", next)
	}
	w := open(t, Options{})
	dir := checkout(t, w, o, nonceB).Path
	put(t, dir, "agent.txt", "x\n")
	first := deliver(t, w, o, nonceB)
	sh(t, o.clone, "fetch", "-q", "origin")
	sh(t, o.clone, "checkout", "-q", "-B", "theirs", "origin/"+branch)
	moveTo("2")
	sh(t, o.clone, "commit", "-q", "-a", "-m", "a person's")
	sh(t, o.clone, "push", "-q", "origin", "HEAD:"+branch)
	theirs := sh(t, o.clone, "rev-parse", "HEAD")
	sh(t, o.clone, "checkout", "-q", "main")
	moveTo("3")
	o.change(t, nil)
	keep(t, w, o)
	s := join(t, w, o)
	if !s.Merged || s.From != first.SHA || s.To != theirs || !slices.Equal(s.Conflicts, []string{"sub"}) ||
		!strings.Contains(s.Left[0], "submodule") {
		t.Errorf("%+v", s)
	}
	if got := o.parents(t, deliverOnto(t, w, o, theirs).SHA); len(got) != 2 || got[0] != theirs {
		t.Errorf("on %v, want %s and the base", got, theirs)
	}
}

// TestInterruptedJoinIsFinished: the merge is recorded, but has not changed a file yet.
func TestInterruptedJoinIsFinished(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := open(t, Options{Dir: dir})
	o, work, first := delivered(t, w)
	theirs := o.push(t, branch, map[string]string{"theirs.txt": "x\n"})
	if _, err := w.mirrors.head(t.Context(), repo, branch, remote{url: o.bare, scheme: "file"}); err != nil {
		t.Fatal(err)
	}
	task, err := w.tasks.open(t.Context(), "test", nonceB)
	if err != nil {
		t.Fatal(err)
	}
	ours, _, err := w.snapshots.current(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	m, err := task.mergeBranch(t.Context(), ours, first.SHA, theirs, task.rec.BaseSHA)
	if err != nil {
		t.Fatal(err)
	}
	m.Branch, task.rec.Merge = branch, &m
	if err := task.save(); err != nil {
		t.Fatal(err)
	}
	task.lock.unlock()
	w = open(t, Options{Dir: dir})
	if s := join(t, w, o); !reflect.DeepEqual(s, Synced{From: theirs, To: theirs}) {
		t.Errorf("%+v", s)
	}
	if got := tree(t, work)["theirs.txt"]; got != "x\n" {
		t.Errorf("theirs.txt: %q", got)
	}
}

// TestBranchThatIsGone: Join reports it, and a delivery creates the branch again.
func TestBranchThatIsGone(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	o, work, first := delivered(t, w)
	sh(t, o.bare, "update-ref", "-d", "refs/heads/"+branch)
	if _, err := w.Join(t.Context(), syncRequest(o), branch); !errors.Is(err, ErrNotThere) {
		t.Error(err)
	}
	put(t, work, "b.txt", "second\n")
	if got := o.parents(t, deliverOnto(t, w, o, first.SHA).SHA); !slices.Equal(got, []string{first.SHA}) {
		t.Errorf("on %v, want %s", got, first.SHA)
	}
}

// TestLostCheckoutIsJoined: Join brings the branch's work into a new checkout.
func TestLostCheckoutIsJoined(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	o, _, first := delivered(t, w)
	if err := w.Remove(t.Context(), nonceB); err != nil {
		t.Fatal(err)
	}
	head := o.change(t, map[string]string{"news.txt": "theirs\n"})
	work := checkout(t, w, o, nonceB).Path
	if s := join(t, w, o); !reflect.DeepEqual(s, Synced{To: first.SHA, Merged: true}) {
		t.Errorf("%+v", s)
	}
	sameTree(t, work, map[string]string{
		"a.txt": lines(map[int]string{1: "agent's"}), "news.txt": "theirs\n",
		".gitignore": "*.log\n",
	})
	if got := o.parents(t, deliverOnto(t, w, o, first.SHA).SHA); !slices.Equal(got, []string{first.SHA, head}) {
		t.Errorf("on %v, want %s and %s", got, first.SHA, head)
	}
}

// TestFresh: the next checkout begins at the base branch, and its delivery is a child of the earlier push.
func TestFresh(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	o, work, first := delivered(t, w)
	head := o.change(t, map[string]string{"news.txt": "theirs\n"})
	for range 2 {
		if err := w.Fresh(t.Context(), nonceB); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Deliver(t.Context(), request(o, nonceB)); !errors.Is(err, ErrNoCheckout) {
			t.Error(err)
		}
		if _, err := w.Drift(t.Context(), syncRequest(o)); !errors.Is(err, ErrNoCheckout) {
			t.Error(err)
		}
	}
	if c := checkout(t, w, o, nonceB); c.Reused || c.BaseSHA != head {
		t.Errorf("%+v, want a new one at %s", c, head)
	}
	sameTree(t, work, map[string]string{"a.txt": lines(nil), "news.txt": "theirs\n", ".gitignore": "*.log\n"})
	if s := join(t, w, o); s.Merged {
		t.Errorf("discarded work came back: %+v", s)
	}
	put(t, work, "otherwise.txt", "agent's\n")
	d := deliverOnto(t, w, o, first.SHA)
	if got := o.parents(t, d.SHA); !slices.Equal(got, []string{first.SHA, head}) {
		t.Errorf("on %v, want %s and %s", got, first.SHA, head)
	}
	if got := sh(t, o.bare, "diff", "--name-status", head, branch); got != "A\totherwise.txt" {
		t.Errorf("delivered:\n%s", got)
	}
	if err := w.Fresh(t.Context(), nonceA); err != nil {
		t.Errorf("Fresh without a task: %v", err)
	}
	if err := w.Fresh(t.Context(), "../x"); err == nil {
		t.Error("Fresh accepted an invalid nonce")
	}
}
