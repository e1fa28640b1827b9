package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestSubjects(t *testing.T) {
	for subject, ok := range map[string]bool{
		"bus: retry a lost append":                  true,
		"director/serve, cmd/director: split views": true,
		"all: wrap code and comments":               true,
		"Merge branch 'x'":                          true,
		"Whose volumes a doctor's test looks at":    false,
		"bus: retries a lost append":                false,
		"bus: Retry a lost append":                  false,
		"bus: retried a lost append":                false,
		"bus: retry a lost append.":                 false,
		"bus: pass the address":                     true,
		"bus: " + strings.Repeat("x", 68):           false,
	} {
		if err := subjectError(subject); (err == nil) != ok {
			t.Errorf("%q: %v, want ok %v", subject, err, ok)
		}
	}
}

func TestIdioms(t *testing.T) {
	for sentence, want := range map[string]bool{
		"Who has lost the lease decides nothing more.":            true,
		"It has a key of its own.":                                true,
		"notifyAfter is the number of failed deliveries":          false,
		"Able reports whether this process can lead.":             false,
		"an id of the claim; nil: it is not there":                true,
		"forget removes the entry, unless a newer replaced it.":   false,
		"who cannot renews no lease, and takes none; nil: it can": true,
	} {
		if got := hasIdiom(sentence); got != want {
			t.Errorf("%q: %v, want %v", sentence, got, want)
		}
	}
}

// TestDebtOnlyFalls checks a tree that exceeds a limit, is recorded, grows and shrinks.
func TestDebtOnlyFalls(t *testing.T) {
	root := t.TempDir()
	git := func(args ...string) {
		if out, err := exec.Command("git", append([]string{"-C", root}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %s", args, out)
		}
	}
	git("init", "-q")
	write := func(body string) {
		for name, text := range map[string]string{"internal/x/x.go": body, debtFile + "x": ""} {
			if err := os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	long := func(n int) string {
		return "package x\n\nfunc long() {\n" + strings.Repeat("\tlong()\n", n) + "}\n"
	}
	var out bytes.Buffer
	write(long(80))
	if err := check(root, true, &out); err != nil {
		t.Fatal(err)
	}
	if err := check(root, false, &out); err != nil {
		t.Fatalf("recorded debt fails: %v\n%s", err, &out)
	}
	write(long(81))
	if err := check(root, false, &out); err == nil {
		t.Fatal("a function that grew passes")
	}
	write(long(70))
	if err := check(root, true, &out); err != nil {
		t.Fatalf("a function that shrank fails: %v", err)
	}
	write(long(80))
	if err := check(root, true, &out); err == nil {
		t.Fatal("an update accepts what grew")
	}
	write(long(10) + "\nfunc another() {\n" + strings.Repeat("\tlong()\n", 70) + "}\n")
	if err := check(root, false, &out); err == nil || !strings.Contains(out.String(), "function internal/x another: 72, want at most 60") {
		t.Fatalf("a new long function passes: %v\n%s", err, &out)
	}
}

// TestRawStringsAreData checks that only code counts as too wide.
func TestRawStringsAreData(t *testing.T) {
	long := strings.Repeat("x", 130)
	code, wide, _ := scanLines([]byte("package x\n\n// A comment.\nvar a = `\n" + long + "\n`\n\nvar b = \"" + long + "\"\n"))
	if code != 5 || len(wide) != 1 || wide[0] != 8 {
		t.Errorf("%d lines of code, wide %v; want 5 and line 8", code, wide)
	}
}
