package worktree

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"pgregory.net/rapid"
)

func TestGlobs(t *testing.T) {
	globs, err := Compile([]string{
		".crush", ".opencode/", "!.opencode/agents/", ".opencode/agents/*.db", ".aider*",
		"!.aider.conf.yml", "**/x.tmp", "a/*.log",
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		".crush": true, ".crush/crush.db": true, ".crush/logs/crush.log": true, ".crush.json": false,
		".crushed/x": false, "sub/.crush/x": false,
		".opencode/opencode.db": true, ".opencode/agents/review.md": false, ".opencode/agents/x.db": true,
		".aider.chat.history.md": true, ".aider.tags.cache.v4/cache.db": true, ".aider.conf.yml": false,
		"x.tmp": true, "deep/down/x.tmp": true, "a/b.log": true, "a/b/c.log": false, "parser.go": false,
	} {
		if got := globs.Match(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestGlobFaults(t *testing.T) {
	for pattern, want := range map[string]string{
		"": "matches all paths or none", "*": "matches all paths or none", "**/*": "matches all paths or none",
		"!**": "matches all paths or none", ".": "matches all paths",
		"/etc/x": "not relative to the work tree", "~/x": "not relative to the work tree", "../x": "contains . or ..",
		"a/../b": "contains . or ..", "a//b": "contains . or ..",
		"a[": "has an open bracket", "a\x00": "has an open bracket",
	} {
		if _, err := Compile([]string{".x", pattern}); err == nil || !errors.Is(err, errGlob) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", pattern, err, want)
		}
	}
}

// files returns the files that are work.
func files(t testing.TB, fsys fs.FS, state []string, tracked ...string) []string {
	t.Helper()
	globs, err := Compile(state)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	if err := Files(fsys, globs, tracked, func(name string, _ fs.DirEntry) error {
		names = append(names, name)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(slices.Values(names))
}

func TestFiles(t *testing.T) {
	fsys := fstest.MapFS{}
	for name, text := range map[string]string{
		".gitignore": "*.log\n/out/\n", "a.go": "", "a.log": "", "kept.log": "", "out/x": "", "out/deep/kept": "",
		"sub/out/x":       "",
		".crush/crush.db": "", ".crush/config.json": "", ".git/index": "", "sub/.GIT/index": "",
		".retake/attempt.json": "", "sub/.retake/x": "",
	} {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	got := files(t, fsys, []string{".crush"}, "kept.log", "out/deep/kept", ".crush/config.json")
	want := []string{
		".crush/config.json", ".gitignore", "a.go", "kept.log", "out/deep/kept", "sub/.retake/x",
		"sub/out/x",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// seenByGit lists the files of dir that git does not ignore, sorted.
func seenByGit(t *rapid.T, dir, gitDir string) (names []string) {
	git := exec.Command("git", "ls-files", "-z", "--others", "--exclude-per-directory=.gitignore")
	git.Dir, git.Env = dir, append(os.Environ(), "GIT_DIR="+gitDir, "GIT_WORK_TREE="+dir,
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := git.Output()
	if err != nil {
		t.Fatal(err)
	}
	for f := range strings.SplitSeq(string(out), "\x00") {
		if f != "" {
			names = append(names, f)
		}
	}
	slices.Sort(names)
	return names
}

// TestIgnoredAsGitIgnores: for any tree and .gitignore files, git lists the same files as untracked.
func TestIgnoredAsGitIgnores(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git: " + err.Error())
	}
	name := rapid.SampledFrom([]string{"a", "b", "ab", "a.b", "a b", "{a}", ".a", "b.log", "a "})
	file := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(name, 1, 3).Draw(t, "path"),
			"/")
	})
	part := rapid.SampledFrom([]string{
		"a", "b", "*", "**", "?", "a*", "*.log", "[ab]", "[!a]", "{a}", ".a", `\a`,
		"a b", "b.log", "[",
	})
	line := rapid.Custom(func(t *rapid.T) string {
		return rapid.SampledFrom([]string{"", "", "", "!"}).Draw(t, "except") +
			rapid.SampledFrom([]string{"", "", "/"}).Draw(t, "root") +
			strings.Join(rapid.SliceOfN(part, 1, 3).Draw(t, "parts"), "/") +
			rapid.SampledFrom([]string{"", "", "/", " ", `\ `, "\r"}).Draw(t, "end")
	})
	gitDir := filepath.Join(t.TempDir(), "git")
	if out, err := exec.Command("git", "init", "-q", "--bare", gitDir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "ignore-")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		for _, f := range rapid.SliceOfN(file, 1, 12).Draw(t, "files") {
			f = filepath.Join(dir, filepath.FromSlash(f))
			_ = os.MkdirAll(filepath.Dir(f), 0o755) // fails if a parent is a file; the tree then has fewer files
			_ = os.WriteFile(f, nil, 0o644)
		}
		for _, folder := range []string{"", "a", "a/b"} {
			text := strings.Join(rapid.SliceOfN(line, 0, 4).Draw(t, "ignore file in "+folder), "\n")
			_ = os.WriteFile(filepath.Join(dir, folder, ignoreName), []byte(text), 0o644)
		}
		want := seenByGit(t, dir, gitDir)
		var got []string
		_ = Files(os.DirFS(dir), nil, nil, func(name string, _ fs.DirEntry) error {
			got = append(got, name)
			return nil
		})
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
}
