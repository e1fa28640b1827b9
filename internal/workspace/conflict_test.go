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

// conflicting returns a checkout that has every kind of conflict with its base branch.
func conflicting(t *testing.T, w *Workspaces) (o origin, c Checkout, head string) {
	t.Helper()
	o = newOrigin(t, map[string]string{
		"both.txt": lines(nil), "gone-there.txt": lines(map[int]string{0: "g"}),
		"gone-here.txt": lines(map[int]string{0: "h"}), "logo.png": "\x00old", "link": "x\n",
		"fine.txt": lines(map[int]string{0: "f"}),
	})
	c = checkout(t, w, o, nonceB)
	put(t, c.Path, "both.txt", lines(map[int]string{4: "agent's"}))
	put(t, c.Path, "gone-there.txt", lines(map[int]string{0: "g", 4: "agent's"}))
	put(t, c.Path, "logo.png", "\x00agent's")
	put(t, c.Path, "new\nline.txt", "agent's\n")
	put(t, c.Path, "bad\xff.txt", "agent's\n")
	put(t, c.Path, "fine.txt", lines(map[int]string{0: "f", 1: "agent's"}))
	put(t, c.Path, "fixture.txt", fixture)
	relink(t, c.Path, "link", "agent")
	if err := errors.Join(os.Remove(filepath.Join(c.Path, "gone-here.txt")),
		os.Remove(filepath.Join(o.clone, "gone-there.txt"))); err != nil {
		t.Fatal(err)
	}
	relink(t, o.clone, "link", "theirs")
	head = o.change(t, map[string]string{
		"both.txt": lines(map[int]string{4: "theirs"}), "gone-here.txt": lines(map[int]string{0: "h", 4: "theirs"}),
		"logo.png":      "\x00theirs",
		"new\nline.txt": "theirs\n", "bad\xff.txt": "theirs\n", "fine.txt": lines(map[int]string{0: "f", 8: "theirs"}),
	})
	return o, c, head
}

// fixture is a file that contains conflict markers as ordinary content.
const fixture = "<<<<<<< a\nx\n=======\ny\n>>>>>>> b\n"

func relink(t *testing.T, dir, name, target string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := errors.Join(os.Remove(path), os.Symlink(target, path)); err != nil {
		t.Fatal(err)
	}
}

func keep(t testing.TB, w *Workspaces, o origin) Synced {
	t.Helper()
	s, err := w.Sync(t.Context(), syncRequest(o), SyncOptions{KeepConflicts: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// leftThere is the expected description of the conflicts that conflicting makes.
var leftThere = []string{
	"\"bad\\xff.txt\": has conflict markers",
	"both.txt: has conflict markers",
	"gone-here.txt: CONFLICT (modify/delete): gone-here.txt deleted in this-task and modified in base-branch. " +
		"Version base-branch of gone-here.txt left in tree.",
	"gone-there.txt: CONFLICT (modify/delete): gone-there.txt deleted in base-branch and modified in this-task. " +
		"Version this-task of gone-there.txt left in tree.",
	"link: changed on both sides; git could not merge the lines, and kept this task's version",
	"logo.png: changed on both sides; git could not merge the lines, and kept this task's version",
	"\"new\\nline.txt\": has conflict markers",
}

// unfinishedWorkIsShown checks that Unfinished work is pushed with its conflict markers, unless Check refuses it.
func unfinishedWorkIsShown(t *testing.T, w *Workspaces, o origin) {
	t.Helper()
	unfinished := request(o, nonceB)
	unfinished.Branch, unfinished.Unfinished = "retake/7-a1-unfinished", true
	unsafe := errors.New("unsafe")
	unfinished.Check = func(context.Context, *Patch) error { return unsafe }
	if _, err := w.Deliver(t.Context(), unfinished); !errors.Is(err, unsafe) {
		t.Errorf("unsafe work: %v", err)
	}
	unfinished.Check = request(o, nonceB).Check
	d, err := w.Deliver(t.Context(), unfinished)
	if err != nil || !hasMarkers(sh(t, o.bare, "show", d.Branch+":both.txt")) {
		t.Errorf("unfinished: %+v, %v", d, err)
	}
}

// TestKeptConflicts covers the markers in the files, the reported conflicts, and the moment when delivery becomes
// possible.
func TestKeptConflicts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := open(t, Options{Dir: dir})
	o, c, head := conflicting(t, w)
	before := tree(t, c.Path)
	wantKind(t, w.Mergeable(t.Context(), syncRequest(o)), Conflict, "both.txt", "logo.png")
	sameTree(t, c.Path, before)

	s := keep(t, w, o)
	if s.From != c.BaseSHA || s.To != head || !s.Merged || !slices.Equal(s.Left, leftThere) {
		t.Errorf("%+v\n%s", s, strings.Join(s.Left, "\n"))
	}
	markers := func(ours, theirs string) string {
		return "<<<<<<< this-task\n" + ours + "=======\n" + theirs + ">>>>>>> base-branch\n"
	}
	after := map[string]string{
		"both.txt":       strings.Replace(lines(nil), "line 4\n", markers("agent's\n", "theirs\n"), 1),
		"gone-there.txt": lines(map[int]string{0: "g", 4: "agent's"}),
		"gone-here.txt":  lines(map[int]string{0: "h", 4: "theirs"}), "logo.png": "\x00agent's", "link": "-> agent",
		"new\nline.txt": markers("agent's\n", "theirs\n"),
		"bad\xff.txt":   markers("agent's\n", "theirs\n"),
		"fine.txt":      lines(map[int]string{0: "f", 1: "agent's", 8: "theirs"}), "fixture.txt": fixture,
	}
	sameTree(t, c.Path, after)
	if again := checkout(t, w, o, nonceB); again.BaseSHA != head || !again.Reused {
		t.Errorf("%+v, want %s as the base", again, head)
	}

	// A restarted director calls Sync again. It must return the same result without merging twice.
	w = open(t, Options{Dir: dir})
	o.change(t, map[string]string{"both.txt": lines(map[int]string{4: "moved on"})})
	if again := keep(t, w, o); again.Merged || !slices.Equal(again.Left, leftThere) ||
		!slices.Equal(again.Conflicts, s.Conflicts) {
		t.Errorf("again: %+v", again)
	}
	sameTree(t, c.Path, after)
	_, err := w.Deliver(t.Context(), request(o, nonceB))
	wantKind(t, err, Conflict, "conflict markers (<<<<<<<) remain in", "both.txt", `"bad\xff.txt"`)
	if !errors.Is(err, ErrMergeConflict) || strings.Contains(err.Error(), "fixture.txt") ||
		strings.Contains(err.Error(), "logo.png") {
		t.Error(err)
	}
	_, err = w.Sync(t.Context(), syncRequest(o), SyncOptions{})
	wantKind(t, err, Conflict, "conflict markers (<<<<<<<) remain in")
	wantKind(t, w.Mergeable(t.Context(), syncRequest(o)), Conflict, "conflict markers (<<<<<<<) remain in")

	unfinishedWorkIsShown(t, w, o)

	// The agent resolves the conflicts, by a deletion in one file, and in another with a marker line as content.
	put(t, c.Path, "both.txt", lines(map[int]string{4: "both"}))
	put(t, c.Path, "bad\xff.txt", "=======\nboth\n=======\n")
	if err := os.Remove(filepath.Join(c.Path, "new\nline.txt")); err != nil {
		t.Fatal(err)
	}
	if d := deliver(t, w, o, nonceB); sh(t, o.bare, "rev-parse", d.Branch+"^") != head {
		t.Errorf("%+v is not on top of %s", d, head)
	}
}

// TestInterruptedConflictIsTold checks that the next Sync finishes an interrupted merge and returns its conflicts.
func TestInterruptedConflictIsTold(t *testing.T) {
	t.Parallel()
	for _, done := range []int{0, 1, 2, 4} {
		dir := t.TempDir()
		w := open(t, Options{Dir: dir})
		o, c, head := conflicting(t, w)
		beginSync(t, w, o, head, done)
		w = open(t, Options{Dir: dir})
		if s := keep(t, w, o); s.To != head || !slices.Equal(s.Left, leftThere) {
			t.Errorf("after %d changes: %+v", done, s)
		}
		got := tree(t, c.Path)
		if !hasMarkers(got["both.txt"]) || hasMarkers(got["fine.txt"]) {
			t.Errorf("after %d changes: %q", done, got)
		}
		_, err := w.Deliver(t.Context(), request(o, nonceB))
		wantKind(t, err, Conflict, "both.txt")
	}
}

func TestMergeable(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": lines(nil), ".gitignore": "cache\n"})
	w := open(t, Options{})
	c := checkout(t, w, o, nonceB)
	put(t, c.Path, "a.txt", lines(map[int]string{1: "agent's"}))
	for _, step := range []struct {
		theirs map[string]string
		agent  string // a file that the agent made
		want   string
	}{
		{nil, "new.txt", ""},
		{map[string]string{"a.txt": lines(map[int]string{8: "theirs"})}, "new.txt", ""},
		{map[string]string{"cache": "theirs\n"}, "cache/ignored", "cache"},
		{map[string]string{"a.txt": lines(map[int]string{1: "theirs", 8: "theirs"})}, "new.txt", "a.txt"},
	} {
		put(t, c.Path, step.agent, "x\n")
		if step.theirs != nil {
			o.change(t, step.theirs)
		}
		before := tree(t, c.Path)
		err := w.Mergeable(t.Context(), syncRequest(o))
		if (step.want == "") != (err == nil) || err != nil && (!errors.Is(err, ErrMergeConflict) ||
			!strings.Contains(err.Error(), step.want)) {
			t.Errorf("%v: %v, want %q", step.theirs, err, step.want)
		}
		sameTree(t, c.Path, before)
	}
	if again := checkout(t, w, o, nonceB); again.BaseSHA != c.BaseSHA {
		t.Errorf("the base moved to %s", again.BaseSHA)
	}
}

func TestMarkers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"":                          false,
		"a\n=======\nb\n":           false,
		"<<<<<<< a\nx\n>>>>>>> b\n": false,
		fixture:                     true,
		strings.ReplaceAll("x\n"+fixture+"z", "\n", "\r\n"):     true,
		"<<<<<<<\n=======\n>>>>>>> b\n":                         false,
		">>>>>>> b\n=======\n<<<<<<< a\n":                       false,
		"<<<<<<< a\n======= \n>>>>>>> b\n":                      false,
		" <<<<<<< a\n=======\n>>>>>>> b\n":                      false,
		"<<<<<<< a\nx\n||||||| o\ny\n=======\nz\n>>>>>>> b":     true,
		"<<<<<<< a\n<<<<<<< c\n=======\n>>>>>>> c\n>>>>>>> b\n": true,
	} {
		if got := hasMarkers(text); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

// TestUnreadableAnswer: unknown output of git does not count as a merge without conflicts.
func TestUnreadableAnswer(t *testing.T) {
	t.Parallel()
	for out, want := range map[string][]leftover{
		"":                        nil,
		"a.txt":                   nil,
		"a.txt\x00b%.txt\x00\x00": {{Path: "a.txt"}, {Path: "b%25.txt"}},
		"a\x00a\x00\x001\x00a\x00CONFLICT (modify/delete)\x00gone\n\x00": {{Path: "a", Note: "gone"}},
		"a\x00\x00x\x00a\x00CONFLICT (y)\x00z\x00":                       {{Path: "a"}},
		"a\x00\x009\x00a\x00CONFLICT (y)\x00z\x00":                       {{Path: "a"}},
	} {
		if got := leftovers("", out); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, want %+v", out, got, want)
		}
	}
}
