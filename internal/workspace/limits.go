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

// ErrTooMuch means that a checkout, or the commit made from it, exceeds Limits. Error.Detail names the limit.
// Names and sizes are checked before the content of any file is read.
var ErrTooMuch = errors.New("workspace: limits exceeded")

// ErrLimitTooLow means that Limits are too low for data that was not created by an agent, such as the base or its
// fetch. Error.Detail names the limit.
var ErrLimitTooLow = errors.New("workspace: a limit is too low for the repository")

// ErrSlow means that git exceeded its deadline but used little processor time, so other load must have
// delayed it. It is transient.
var ErrSlow = errors.New("workspace: git was slow")

// Limits bounds the content of an agent's checkout and the resources that our git may spend on it. Zero means the
// default, which is given at the end of each comment.
type Limits struct {
	Files     int   // files, links and directories; 500,000
	Entries   int   // entries per directory; 100,000
	Depth     int   // directory nesting depth; 200
	PathBytes int   // length of a path relative to the checkout, at most git's maximum of 4000; 1024
	Bytes     int64 // total size of all files, apparent or on disk, whichever is larger; 20 GiB
	// WorkBytes is the total size of the files that git would store, without ignored files and agent state; 4 GiB
	WorkBytes int64
	GitTime   time.Duration // wall time of a local git run, which may use twice as much processor time; 5 minutes
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

const nextTooMuch = "raise the limit, or start with a clean checkout"

func tooMuch(op, format string, args ...any) error {
	return &Error{Kind: Permanent, Op: op, Detail: fmt.Sprintf(format, args...), Next: nextTooMuch, Err: ErrTooMuch}
}

func tooLow(op, format string, args ...any) error {
	return &Error{
		Kind: Permanent, Op: op, Detail: fmt.Sprintf(format, args...),
		Next: "this was not caused by an agent; raise the named limit, then resume", Err: ErrLimitTooLow,
	}
}

// size counts the content of a checkout during a walk.
type size struct {
	limits Limits
	op     string

	files          int
	apparent, used int64
	entries        []int // entries so far, by depth
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
	s.used += e.Stat.Blocks * 512 // directories count too, since a million names take megabytes
	over := s.limits.tree().Check(checkpoint.Seen{
		Files: s.files, InFolder: s.entries[e.Depth-1], Depth: e.Depth, Path: e.Path, Size: own,
		IsFile: mode == unix.S_IFREG, Apparent: s.apparent, Used: s.used,
	})
	if over != nil {
		return tooMuch(s.op, "%s", over.Text)
	}
	return nil
}

// tree returns the limits that also apply to a manifest.
func (l Limits) tree() checkpoint.Limits {
	return checkpoint.Limits{Files: l.Files, Entries: l.Entries, Depth: l.Depth, PathBytes: l.PathBytes, Bytes: l.Bytes}
}

// Leave resets the count for the next directory at this depth.
func (s *size) Leave(e *safefile.Entry) error {
	if len(s.entries) > e.Depth {
		s.entries[e.Depth] = 0
	}
	return nil
}

func shortened(path []byte) string { return checkpoint.Shortened(path) }

// Usage is the disk usage of a checkout.
type Usage struct {
	Bytes, Files int64
	// Whole is false if the usage is a lower bound, because the tree has more files than Limits.Files, changed during
	// the walk, or could not be walked to the end.
	Whole bool
}

// Used returns the disk usage of a task's checkout. A worker may be running in it. A checkout with a quota counts as
// one file that includes the blocks of deleted files. A missing checkout has size 0.
func (w *Workspaces) Used(ctx context.Context, nonce string) (Usage, error) {
	t, err := w.tasks.find("measure "+nonce, nonce)
	if err != nil {
		return Usage{}, err
	}
	var st unix.Stat_t
	if err := unix.Lstat(t.image(), &st); err == nil {
		return Usage{Bytes: st.Blocks * 512, Files: 1, Whole: true}, nil
	}
	u := usage{most: int64(w.snapshots.limits.Files)}
	err = safefile.Walk(ctx, t.checkout(), &u)
	switch {
	case err == nil:
		u.Whole = true
	case errors.Is(err, unix.ENOENT) && u.Files == 0:
		_, gone := os.Lstat(t.checkout())
		u.Whole, err = errors.Is(gone, fs.ErrNotExist), nil
	case errors.Is(err, errEnough), ctx.Err() == nil && u.Files > 0:
		err = nil
	}
	return u.Usage, system(t.op, err)
}

var errEnough = errors.New("workspace: enough")

type usage struct {
	Usage
	most int64
}

// Visit adds the disk usage of one entry.
func (u *usage) Visit(e *safefile.Entry) error {
	u.Bytes += e.Stat.Blocks * 512
	if u.Files++; u.Files > u.most {
		return errEnough
	}
	return nil
}

// Leave does nothing.
func (u *usage) Leave(*safefile.Entry) error { return nil }
