package main

import (
	"bytes"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestSubjects(t *testing.T) {
	for subject, ok := range map[string]bool{
		"bus: retry a lost append":                  true,
		"director/serve, cmd/director: split views": false,
		"director/serve: split the views":           true,
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

const idiomatic = `
Who has lost the lease decides nothing more.
What got through fails
whose turn it was
nothing that an image may say: what is kept then is lost
placeOf is where an issue is
waitsFor is why it waits
historyAnswer is what it is answered
reports what of a vector's shape was not met before
It has a key of its own.
signals of ours that were sent
the rest is the journal's
a hole stays one that counts
the likeliest one that is left
Reason is that of the copy
nobody has mended it
what a sender is told was decided
the person is not heard here
the merge is not known
SIGHUP has it read again
the file says nothing of its content
the kernel's word for this
in the cluster's own words
who cannot renews no lease, and takes none; nil: it can
nothing of it is left
not the run's, and no secret
a list that is no answer after a while
the table is drawn anew
the kernel kills the worker, too
issues with a label, also closed ones
the read goes on without it
keptFile lies beside the checkouts
between two looks at the context
It is the resource that failed here
an id of the claim; nil: it is not there
first the view; then the claim; then the branch
the disk is stopped: a person is asked: try again
`

const plain = `
notifyAfter is the number of failed deliveries
Able reports whether this process can lead.
forget removes the entry, unless a newer one replaced it.
An error of fn ends the replay.
PID returns the process's id, or 0 if it is not running.
It has no field that can fail
There is no journal to read: start with an empty one
The lease is no longer ours after this call
Caller should log the error and continue as if the file did not exist.
lists one of the known kinds
Append blocks until the batch is durable or ctx ends
Test reports what changed between two polls
bus: open journal: no such file
SyncDir makes the entries of a directory durable.
`

func lines(text string) []string { return strings.Split(strings.TrimSpace(text), "\n") }

// TestIdioms checks sentences from every group, and plain sentences with the same words.
func TestIdioms(t *testing.T) {
	for _, s := range lines(idiomatic) {
		if !hasIdiom(s) {
			t.Errorf("%q has none", s)
		}
	}
	for _, s := range lines(plain) {
		if hasIdiom(s) {
			t.Errorf("%q has one", s)
		}
	}
}

var markdown = strings.ReplaceAll(`# A title of its own

Text that goes
on, in 'what is code'. [Nobody knows](x) it.

~~~
who is in code
~~~

| 'what is' | Who reads this cell here |
|---|---|

<!-- states -->
| what is made | from the code |
<!-- /states -->
- an item
  on two lines
`, "'", "`")

func TestMarkdown(t *testing.T) {
	s := proseOf([]byte(markdown))
	var at []int
	for _, one := range s.idioms {
		at = append(at, one.line)
	}
	if want := []int{1, 3, 3, 10}; s.all != 5 || !slices.Equal(at, want) {
		t.Errorf("%d sentences, idioms at %v; want 5, at %v: %v", s.all, at, want, s.idioms)
	}
}

func TestErrorTexts(t *testing.T) {
	src := `package bus

var (
	ErrFull  = errors.New("bus: journal full")
	ErrOther = errors.New("no prefix")
)

func f() error {
	_ = fmt.Errorf("GitHub answered %d", 1)
	_ = fmt.Errorf("Capital %w", nil)
	_ = fmt.Errorf("read %q: %w", "x", nil)
	return errors.New("ends with a full stop.")
}
`
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "x.go", src, 0)
	if err != nil {
		t.Fatal(err)
	}
	var at []int
	for _, one := range badErrors(fset, f) {
		at = append(at, one.line)
	}
	if want := []int{5, 10, 12}; !slices.Equal(at, want) {
		t.Errorf("lines %v, want %v", at, want)
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
	if err := check(root, true, nil, &out); err != nil {
		t.Fatal(err)
	}
	if err := check(root, false, nil, &out); err != nil {
		t.Fatalf("recorded debt fails: %v\n%s", err, &out)
	}
	write(long(81))
	if err := check(root, false, nil, &out); err == nil {
		t.Fatal("a function that grew passes")
	}
	write(long(70))
	if err := check(root, true, nil, &out); err != nil {
		t.Fatalf("a function that shrank fails: %v", err)
	}
	write(long(80))
	if err := check(root, true, nil, &out); err == nil {
		t.Fatal("an update accepts what grew")
	}
	if err := check(root, true, []string{"function"}, &out); err != nil {
		t.Fatalf("a harder rule cannot be recorded: %v", err)
	}
	write(long(10) + "\nfunc another() {\n" + strings.Repeat("\tlong()\n", 70) + "}\n")
	err := check(root, false, nil, &out)
	if want := "function internal/x another: 72, want at most 60"; err == nil || !strings.Contains(out.String(), want) {
		t.Fatalf("a new long function passes: %v\n%s", err, &out)
	}
}

// TestRawStringsAreData checks that only code counts as too wide.
func TestRawStringsAreData(t *testing.T) {
	long := strings.Repeat("x", 130)
	src := "package x\n\n// A comment.\nvar a = `\n" + long + "\n`\n\nvar b = \"" + long + "\"\n"
	code, wide, _ := scanLines([]byte(src))
	if code != 5 || len(wide) != 1 || wide[0] != 8 {
		t.Errorf("%d lines of code, wide %v; want 5 and line 8", code, wide)
	}
}
