package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"retake/internal/checkpoint"
	"retake/internal/safefile"
)

// ErrTooMuch is wrapped when a checkout, or what would be made of it, is beyond Limits; Error.Detail says which
// one. Beyond what is counted first, no file's content was read; git may have read some until it was beyond a
// limit of its own.
var ErrTooMuch = errors.New("workspace: more than the limits allow")

// ErrLimitTooLow is wrapped when Limits do not let through what no agent made: the base, or a fetch or push of
// it. Error.Detail says which one.
var ErrLimitTooLow = errors.New("workspace: a limit is too low for the repository")

// ErrSlow is wrapped, transient, when git was ended by the clock without having done much: something else keeps
// the machine busy.
var ErrSlow = errors.New("workspace: git was slow")

// Limits bound what an agent may leave in a checkout, and what our git may use for it. A zero is the default.
type Limits struct {
	Files     int           // files, links and folders; 500,000
	Entries   int           // of them in one folder; 100,000
	Depth     int           // folders in each other; 200
	PathBytes int           // of a path relative to the checkout; 1024, at most 4000: git takes no longer ones
	Bytes     int64         // of all files: what they say or what they use of the disk, whichever is more; 20 GiB
	WorkBytes int64         // of the files that git would store: neither ignored nor the state of agents; 4 GiB
	GitTime   time.Duration // of a run of git that asks no server, and twice as much of a processor; 5 minutes
	GitMemory int64         // address space of a git process; 4 GiB
}

func (l Limits) orDefaults() Limits {
	return Limits{
		Files: cmp.Or(l.Files, 500_000), Entries: cmp.Or(l.Entries, 100_000), Depth: cmp.Or(l.Depth, 200),
		PathBytes: cmp.Or(l.PathBytes, 1024),
		Bytes:     cmp.Or(l.Bytes, 20<<30), WorkBytes: cmp.Or(l.WorkBytes, 4<<30),
		GitTime: cmp.Or(l.GitTime, 5*time.Minute), GitMemory: cmp.Or(l.GitMemory, 4<<30),
	}
}

const nextTooMuch = "raise the limit, or begin with a clean checkout"

func tooMuch(op, format string, args ...any) error {
	return &Error{Kind: Permanent, Op: op, Detail: fmt.Sprintf(format, args...), Next: nextTooMuch, Err: ErrTooMuch}
}

func tooLow(op, format string, args ...any) error {
	return &Error{
		Kind: Permanent, Op: op, Detail: fmt.Sprintf(format, args...),
		Next: "that is no agent's work: raise the limit that is named, then resume", Err: ErrLimitTooLow,
	}
}

// size is what a checkout holds, counted while it is walked.
type size struct {
	limits Limits
	op     string

	files          int
	apparent, used int64
	entries        []int // so far, by depth
}

// measure walks a checkout and ends at the first limit that it is beyond. It reads names and sizes only.
func (w *Workspaces) measure(ctx context.Context, t task) error {
	s := size{limits: w.limits, op: t.op}
	return system(t.op, safefile.Walk(ctx, t.checkout(), &s))
}

// measureBase measures a checkout that is new: nothing but the base is in it. So what is beyond a limit is
// nobody's work, and a clean checkout would be no better.
func (w *Workspaces) measureBase(ctx context.Context, t task) error {
	s := size{limits: w.limits, op: t.op}
	err := system(t.op, safefile.Walk(ctx, t.checkout(), &s))
	if e, ok := errors.AsType[*Error](err); ok && errors.Is(err, ErrTooMuch) {
		return tooLow(t.op, "the base branch alone is beyond a limit: %s", e.Detail)
	}
	if err == nil && s.apparent > w.limits.WorkBytes {
		return tooLow(t.op, "the base branch alone is beyond a limit: its files have %d bytes, more than %d "+
			"(checkout.max_work_bytes)", s.apparent, w.limits.WorkBytes)
	}
	return err
}

// Visit counts one entry.
func (s *size) Visit(e *safefile.Entry) error {
	for len(s.entries) < e.Depth {
		s.entries = append(s.entries, 0)
	}
	s.files++
	s.entries[e.Depth-1]++
	own := int64(0)
	mode := e.Stat.Mode & unix.S_IFMT
	if mode == unix.S_IFREG || mode == unix.S_IFLNK {
		own = e.Stat.Size
	}
	s.apparent += own
	s.used += e.Stat.Blocks * 512 // of folders, too: a million names are megabytes
	over := s.limits.tree().Check(checkpoint.Seen{
		Files: s.files, InFolder: s.entries[e.Depth-1], Depth: e.Depth, Path: e.Path, Size: own,
		IsFile: mode == unix.S_IFREG, Apparent: s.apparent, Used: s.used,
	})
	if over != nil {
		return tooMuch(s.op, "%s", over.Text)
	}
	return nil
}

// tree are those of the limits that a manifest is held against, too.
func (l Limits) tree() checkpoint.Limits {
	return checkpoint.Limits{Files: l.Files, Entries: l.Entries, Depth: l.Depth, PathBytes: l.PathBytes, Bytes: l.Bytes}
}

// Leave begins to count anew for the next folder at this depth.
func (s *size) Leave(e *safefile.Entry) error {
	if len(s.entries) > e.Depth {
		s.entries[e.Depth] = 0
	}
	return nil
}

func shortened(path []byte) string { return checkpoint.Shortened(path) }

// measureWork counts the bytes that git would store of the staging folder, before it does. The index holds the base.
func (w *Workspaces) measureWork(ctx context.Context, t task) error {
	stage, err := unix.Open(t.stage(), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return system(t.op, err)
	}
	defer func() { _ = unix.Close(stage) }()
	var bytes int64
	c := t.stagedCall("", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	c.unbounded = true
	return w.git.records(ctx, c, 0, func(name []byte) error {
		var st unix.Stat_t
		if err := unix.Fstatat(stage, string(name), &st, unix.AT_SYMLINK_NOFOLLOW); err != nil ||
			st.Mode&unix.S_IFMT == unix.S_IFDIR {
			return nil //nolint:nilerr // deleted, or in the place of a folder; a submodule
		}
		if bytes += st.Size; bytes > w.limits.WorkBytes {
			return tooMuch(t.op, "the work has more than %d bytes (checkout.max_work_bytes), with %s: is there "+
				"something in it that .gitignore should name?",
				w.limits.WorkBytes, shortened(name))
		}
		return nil
	})
}

// Usage is what a checkout uses of the disk of the data directory.
type Usage struct {
	Bytes, Files int64
	// false: at least that. There were more files than the limit, or it changed while it was walked, or time was up.
	Whole bool
}

// Used returns what a task's checkout uses of the disk. A worker may be running in it. One with a quota is one
// file, as large as what was written into it, also of what was deleted since. Nothing: there is none.
func (w *Workspaces) Used(ctx context.Context, nonce string) (Usage, error) {
	op := "measure " + nonce
	if err := checkNonce(op, nonce); err != nil {
		return Usage{}, err
	}
	t := w.task(op, nonce, nil)
	var st unix.Stat_t
	if err := unix.Lstat(t.image(), &st); err == nil {
		return Usage{Bytes: st.Blocks * 512, Files: 1, Whole: true}, nil
	}
	u := usage{most: int64(w.limits.Files)}
	err := safefile.Walk(ctx, t.checkout(), &u)
	switch {
	case err == nil:
		u.Whole = true
	case errors.Is(err, unix.ENOENT) && u.Files == 0:
		_, gone := os.Lstat(t.checkout())
		u.Whole, err = errors.Is(gone, fs.ErrNotExist), nil
	case errors.Is(err, errEnough), ctx.Err() == nil && u.Files > 0:
		err = nil
	}
	return u.Usage, system(op, err)
}

var errEnough = errors.New("workspace: enough")

type usage struct {
	Usage
	most int64
}

// Visit counts one entry.
func (u *usage) Visit(e *safefile.Entry) error {
	u.Bytes += e.Stat.Blocks * 512
	if u.Files++; u.Files > u.most {
		return errEnough
	}
	return nil
}

// Leave does nothing.
func (u *usage) Leave(*safefile.Entry) error { return nil }
