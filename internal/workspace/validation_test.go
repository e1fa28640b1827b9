package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestValidationIsWhatIsDelivered checks that a validating attempt gets exactly the files that Deliver would commit.
func TestValidationIsWhatIsDelivered(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n", ".gitignore": "cache/\n", "gone.txt": "x"})
	w := open(t, Options{StatePaths: []string{".agent/"}})
	c := checkout(t, w, o, nonceB)
	put(t, c.Path, "new/b.txt", "b")
	put(t, c.Path, "cache/poisoned", "all is well")
	put(t, c.Path, ".agent/session", "said")
	put(t, c.Path, ".retake/last_failure.txt", "none")
	put(t, c.Path, "sub/.git/hooks/pre-commit", "evil")
	if err := errors.Join(os.Remove(filepath.Join(c.Path, "gone.txt")),
		os.Symlink("/etc/passwd", filepath.Join(c.Path, "link"))); err != nil {
		t.Fatal(err)
	}
	path, tree, err := w.Validation(t.Context(), nonceB, nonceB+"-2")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := filesIn(t, path), []string{".gitignore", ".retake", "a.txt", "link", "new/b.txt"}; !slices.Equal(
		got, want) {
		t.Errorf("it has %q, want %q", got, want)
	}
	put(t, path, "build/out", "the copy belongs to the attempt")
	q := request(o, nonceB)
	q.Validated = nonceB + "-2"
	d, err := w.Deliver(t.Context(), q)
	if err != nil || sh(t, o.bare, "rev-parse", d.SHA+"^{tree}") != tree {
		t.Errorf("%+v, %v; want tree %s", d, err, tree)
	}
	if err := errors.Join(w.DropValidation(t.Context(), nonceB), w.DropValidation(t.Context(), nonceB)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder still exists: %v", err)
	}
}

// TestOnlyTheValidatedIsDelivered: later changes of a checkout and other validations do not change the delivery.
func TestOnlyTheValidatedIsDelivered(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		by   string
		then func(t *testing.T, dir string)
		ok   bool
	}{
		"as it was":       {nonceB + "-2", func(*testing.T, string) {}, true},
		"an ignored file": {nonceB + "-2", func(t *testing.T, dir string) { put(t, dir, "cache/x", "x") }, true},
		"another byte":    {nonceB + "-2", func(t *testing.T, dir string) { put(t, dir, "b.txt", "B") }, false},
		"another mode": {
			nonceB + "-2",
			func(_ *testing.T, dir string) { _ = os.Chmod(filepath.Join(dir, "b.txt"), 0o755) }, false,
		},
		"another file":    {nonceB + "-2", func(t *testing.T, dir string) { put(t, dir, "c.txt", "c") }, false},
		"another attempt": {nonceB + "-3", func(*testing.T, string) {}, false},
		"taken back and done": {
			nonceB + "-2",
			func(t *testing.T, dir string) { put(t, dir, "b.txt", "B"); put(t, dir, "b.txt", "b") }, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOrigin(t, map[string]string{".gitignore": "cache/\n"})
			w := open(t, Options{})
			c := checkout(t, w, o, nonceB)
			put(t, c.Path, "b.txt", "b")
			if _, _, err := w.Validation(t.Context(), nonceB, nonceB+"-2"); err != nil {
				t.Fatal(err)
			}
			row.then(t, c.Path)
			q := request(o, nonceB)
			q.Validated = row.by
			_, err := w.Deliver(t.Context(), q)
			if row.ok != (err == nil) || !row.ok && !errors.Is(err, ErrNotValidated) {
				t.Errorf("%v; want it delivered: %t", err, row.ok)
			}
			if !row.ok && sh(t, o.bare, "for-each-ref", "--format=%(refname)", "refs/heads/") != "refs/heads/main" {
				t.Error("Deliver pushed a branch")
			}
		})
	}
}

// TestValidationOfAnAttemptIsOneTree: a restarted director repeats the call when the container may already have the
// recorded tree.
func TestValidationOfAnAttemptIsOneTree(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	w := open(t, Options{})
	c := checkout(t, w, o, nonceB)
	put(t, c.Path, "b.txt", "b")
	path, first, err := w.Validation(t.Context(), nonceB, nonceB+"-2")
	if err != nil {
		t.Fatal(err)
	}
	put(t, path, "b.txt", "changed by the attempt")
	put(t, c.Path, "b.txt", "changed by a merge")
	if _, again, err := w.Validation(t.Context(), nonceB, nonceB+"-2"); err != nil || again != first {
		t.Errorf("tree %s, then %s, %v", first, again, err)
	}
	if got, _ := os.ReadFile(filepath.Join(path, "b.txt")); string(got) != "b" {
		t.Errorf("b.txt is %q", got)
	}
	if _, next, err := w.Validation(t.Context(), nonceB, nonceB+"-3"); err != nil || next == first {
		t.Errorf("the next attempt also got tree %s, %v", next, err)
	}
	if _, _, err := w.Validation(t.Context(), nonceA, nonceA+"-1"); !errors.Is(err, ErrNoCheckout) {
		t.Errorf("%v; want ErrNoCheckout", err)
	}
}

// filesIn lists a directory's files, and its empty directories.
func filesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if inside, _ := os.ReadDir(path); !d.IsDir() || len(inside) == 0 {
			name, _ := filepath.Rel(dir, path)
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
