package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"retake/internal/safefile"
)

var limits = Limits{Files: 100_000, Entries: 100_000, Depth: 100, PathBytes: 1024, Bytes: 1 << 30}

// store holds chunks in memory.
type store map[Digest][]byte

func (s store) put(d Digest, data []byte) error {
	if DigestOf(data) != d || len(data) > ChunkBytes {
		return fmt.Errorf("chunk %s of %d bytes", d, len(data))
	}
	s[d] = bytes.Clone(data)
	return nil
}

func (s store) get(d Digest) ([]byte, error) {
	data, ok := s[d]
	if !ok {
		return nil, fmt.Errorf("no chunk %s", d)
	}
	return data, nil
}

func (s store) fetch(_ context.Context, d Digest) ([]byte, error) { return s.get(d) }

// reporter is a test of any kind.
type reporter interface {
	Helper()
	Fatal(args ...any)
	Errorf(format string, args ...any)
}

// listing returns the comparable properties of a directory.
func listing(t reporter, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, what := p[len(dir)+1:], info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			what += fmt.Sprintf(" %d %x", info.ModTime().UnixNano(), DigestOf(data))
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			what = "-> " + target
		}
		all[name] = what
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func sameFolders(t reporter, want, got string) {
	t.Helper()
	a, b := listing(t, want), listing(t, got)
	for name, what := range a {
		if b[name] != what {
			t.Errorf("%q: got %q, want %q", name, b[name], what)
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			t.Errorf("%q is there: %s", name, b[name])
		}
	}
}

// change changes a directory, as an agent might. It works only through an os.Root, because the directory contains links
// to the outside.
func change(t *rapid.T, dir string) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	name := rapid.SampledFrom([]string{"a", "b", "c-d", "x\ny", "\xff\xfe", ".hidden", "deep"})
	path := strings.Join(rapid.SliceOfN(name, 1, 3).Draw(t, "path"), "/")
	write := func(flags int, mode fs.FileMode, do func(f *os.File)) {
		// O_NONBLOCK keeps a pipe from blocking the test
		if f, err := root.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK|flags, mode); err == nil {
			do(f)
			_ = f.Close()
		}
	}
	switch rapid.SampledFrom([]string{
		"write", "write", "write", "append", "folder", "link", "remove", "chmod", "move",
		"large", "sparse", "pipe",
	}).Draw(t, "what") {
	case "write":
		_ = root.MkdirAll(filepath.Dir(path), 0o755)
		content := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "content")
		write(os.O_CREATE|os.O_TRUNC, 0o644, func(f *os.File) { _, _ = f.Write(content) })
	case "append":
		write(os.O_APPEND, 0, func(f *os.File) { _, _ = f.WriteString("more") })
	case "folder":
		_ = root.MkdirAll(path, 0o755)
	case "link":
		_ = root.Symlink(rapid.SampledFrom([]string{"a", "../a", "/nowhere/at/all", "..", "."}).Draw(t, "target"), path)
	case "remove":
		_ = root.RemoveAll(path)
	case "chmod":
		if info, err := root.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink == 0 {
			_ = root.Chmod(path, fs.FileMode(rapid.IntRange(0, 0o77).Draw(t, "mode"))|0o700)
		}
	case "move":
		_ = root.Rename(path, name.Draw(t, "to"))
	case "large":
		data := make([]byte, rapid.IntRange(ChunkBytes-1, 3*ChunkBytes+1).Draw(t, "size"))
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		for i := range data[:len(data)/2] {
			data[i] = byte(r.Uint32())
		}
		write(os.O_CREATE|os.O_TRUNC, 0o755, func(f *os.File) { _, _ = f.Write(data) })
	case "sparse":
		size, at := rapid.IntRange(0, 8<<20).Draw(t, "size"), rapid.IntRange(0, 8<<20).Draw(t, "at")
		write(os.O_CREATE, 0o644, func(f *os.File) {
			_ = f.Truncate(int64(size))
			_, _ = f.WriteAt([]byte("x"), int64(at))
		})
	case "pipe": // in dir itself, because the path must not have a link
		_ = syscall.Mkfifo(filepath.Join(dir, name.Draw(t, "pipe")), 0o644)
	}
}

// withoutPipes removes files that cannot be copied.
func withoutPipes(dir string) {
	_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type()&fs.ModeNamedPipe != 0 {
			return os.Remove(p)
		}
		return err
	})
}

// TestWhatTravelsIsTheSame copies random directories after random changes by their chunks, with and without the
// previous tree, and expects an equal copy. A chunk must not be emitted twice.
func TestWhatTravelsIsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "checkpoint-")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = safefile.RemoveAll(dir) }()
		from, to, other := filepath.Join(dir, "from"), filepath.Join(dir, "to"), filepath.Join(dir, "other")
		for _, d := range []string{from, to, other} {
			if err := os.Mkdir(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		chunks, have := store{}, &Tree{}
		s := Scanner{Dir: from, Limits: limits, Emit: chunks.put}
		for range rapid.IntRange(1, 4).Draw(t, "checkpoints") {
			for range rapid.IntRange(0, 12).Draw(t, "changes") {
				change(t, from)
			}
			whole := rapid.Bool().Draw(t, "whole")
			tree, err := s.Scan(t.Context(), whole)
			if err != nil {
				t.Fatal(err)
			}
			m, err := tree.Encode(chunks.put)
			if err != nil {
				t.Fatal(err)
			}
			if rapid.Bool().Draw(t, "kept") {
				s.Keep(tree)
			}
			got, err := Load(m.Root, limits, chunks.get)
			if err != nil {
				t.Fatal(err)
			}
			if err := got.Tree.Check(limits); err != nil {
				t.Fatal(err)
			}
			if len(got.Chunks) != len(m.Chunks) {
				t.Errorf("the loaded manifest names %d chunks, want %d", len(got.Chunks), len(m.Chunks))
			}
			if err := Apply(t.Context(), to, have, got.Tree, chunks.fetch); err != nil {
				t.Fatal(err)
			}
			if rapid.Bool().Draw(t, "something else is there") {
				change(t, other)
				change(t, other)
			}
			if err := Apply(t.Context(), other, nil, got.Tree, chunks.fetch); err != nil {
				t.Fatal(err)
			}
			have = got.Tree
			withoutPipes(from)
			withoutPipes(other)
			sameFolders(t, from, to)
			sameFolders(t, from, other)
		}
	})
}

// made returns the tree of a directory with these files, and its chunks.
func made(t *testing.T, files map[string]string) (dir string, s *Scanner, chunks store) {
	t.Helper()
	dir, chunks = t.TempDir(), store{}
	for name, text := range files {
		p := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir, &Scanner{Dir: dir, Limits: limits, Emit: chunks.put}, chunks
}

func paths(tree *Tree) (all []string) {
	for _, e := range tree.Entries {
		all = append(all, e.Path)
	}
	return all
}
