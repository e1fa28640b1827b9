package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"retake/internal/safefile"
)

// chown is a visitor that changes the owner of every file, directory and link, but never of a link's target. It skips
// files that already have that owner, so a reused tree costs one stat per file.
type chown Owner

func chownTree(ctx context.Context, dir string, o Owner) error {
	return errors.Join(os.Lchown(dir, o.UID, o.GID), safefile.Walk(ctx, dir, chown(o)))
}

// Visit changes the owner of one entry.
func (o chown) Visit(e *safefile.Entry) error {
	if int(e.Stat.Uid) == o.UID && int(e.Stat.Gid) == o.GID {
		return nil
	}
	return unix.Fchownat(e.Dir, e.Name, o.UID, o.GID, unix.AT_SYMLINK_NOFOLLOW)
}

// Leave does nothing.
func (chown) Leave(*safefile.Entry) error { return nil }

// stageTree fills the new directory dst with the files from src that git may read. It hard-links the files, or copies
// them where links are impossible, and recreates symbolic links. It leaves out everything named .git, the top-level
// .retake, files for which leaveOut returns true, sockets, pipes and devices. It also leaves out files and directories
// with names that git refuses, such as ".GIT", and returns them along with the nested repositories. Copied files stay
// sparse. most limits the number of bytes copied.
func stageTree(ctx context.Context, op, src, dst string, most copyLimit,
	leaveOut func(name string) bool,
) (refused []LeftOut, nested map[string]string, err error) {
	if err := os.Mkdir(dst, 0o700); err != nil {
		return nil, nil, err
	}
	fd, err := unix.Open(dst, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	s := stager{
		ctx: ctx, at: fd, leaveOut: leaveOut, left: most.bytes, most: most, op: op, root: os.Geteuid() == 0,
		nested: map[string]string{},
	}
	defer func() { err = errors.Join(err, unix.Close(s.at)) }()
	err = safefile.Walk(ctx, src, &s)
	return s.refused, s.nested, err
}

// stager mirrors a walk through a checkout in the staging directory, which only this package uses.
type stager struct {
	ctx      context.Context // context of the walk
	at       int             // descriptor of the current directory within the stage
	leaveOut func(name string) bool
	left     int64 // bytes that may still be copied
	most     copyLimit
	op       string
	root     bool
	refused  []LeftOut
	nested   map[string]string // path of each .git below the top level, keyed by the containing directory
}

// Visit puts one entry into the staging directory.
func (s *stager) Visit(e *safefile.Entry) error {
	dir := e.IsDir()
	if e.Name == ".git" {
		if e.Depth > 1 && len(s.nested) < maxLeftOut {
			s.nested[path.Dir(string(e.Path))] = string(e.Path)
		}
		return fs.SkipDir
	}
	if e.Depth == 1 && e.Name == retakeDir || !dir && s.leaveOut(string(e.Path)) {
		return fs.SkipDir
	}
	if gitRefuses(e.Name, e.Stat.Mode&unix.S_IFMT == unix.S_IFLNK) {
		if len(s.refused) < maxLeftOut {
			s.refused = append(s.refused, LeftOut{Path: string(e.Path)})
		}
		return fs.SkipDir
	}
	switch e.Stat.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		if err := unix.Mkdirat(s.at, e.Name, 0o700); err != nil {
			return err
		}
		return s.move(e.Name, unix.O_NOFOLLOW)
	case unix.S_IFREG:
		return s.file(e)
	case unix.S_IFLNK:
		return s.link(e)
	}
	return nil
}

// Leave moves to the parent of the staging directory.
func (s *stager) Leave(*safefile.Entry) error { return s.move("..", 0) }

func (s *stager) move(name string, flags int) error {
	fd, err := unix.Openat(s.at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|flags, 0)
	if err != nil {
		return err
	}
	_ = unix.Close(s.at)
	s.at = fd
	return nil
}

func (s *stager) link(e *safefile.Entry) error {
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(e.Dir, e.Name, target)
	if err != nil {
		return err
	}
	return unix.Symlinkat(string(target[:n]), s.at, e.Name)
}

func (s *stager) file(e *safefile.Entry) error {
	if !s.root && e.Stat.Mode&0o400 == 0 {
		if err := e.MakeReadable(); err != nil { // root can read the file anyway
			return err
		}
	}
	err := unix.Linkat(e.Dir, e.Name, s.at, e.Name, 0)
	if errors.Is(err, unix.EMLINK) { // copying would multiply the disk usage of a file with many links
		return tooMuch(s.op, "a file has too many hard links: %d, including %s", e.Stat.Nlink, shortened(e.Path))
	}
	if errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOTSUP) {
		return s.copy(e)
	}
	return err
}

// copy copies a regular file. It does not follow a link or wait for the other end of a pipe, and fails if the file
// changes during the copy.
func (s *stager) copy(e *safefile.Entry) (err error) {
	fd, err := unix.Openat(e.Dir, e.Name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	in := os.NewFile(uintptr(fd), "")
	defer func() { _ = in.Close() }()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Size() != e.Stat.Size {
		return fmt.Errorf("%s changed while it was being read", shortened(e.Path))
	}
	to, err := unix.Openat(s.at, e.Name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC,
		0o600|uint32(info.Mode().Perm()&0o100))
	if err != nil {
		return err
	}
	out := os.NewFile(uintptr(to), "")
	if err = s.data(in, out, info.Size()); err == nil {
		err = out.Truncate(info.Size())
	}
	return errors.Join(err, out.Close())
}

// copyAtOnce is the number of bytes copied between context checks.
const copyAtOnce = 16 << 20

// data copies the first size bytes of a file, skipping holes.
func (s *stager) data(in, out *os.File, size int64) error {
	for at := int64(0); at < size; {
		from, err := unix.Seek(int(in.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil // the rest is a hole
		}
		if err != nil {
			return err
		}
		end, err := unix.Seek(int(in.Fd()), from, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		end = min(end, size, from+copyAtOnce)
		if end <= from {
			return nil // the file has grown beyond size
		}
		if s.left -= end - from; s.left < 0 {
			return tooMuch(s.op, "the files cannot be hard-linked, and copying them would take more than %d bytes (%s)",
				s.most.bytes, s.most.key)
		}
		if err := s.ctx.Err(); err != nil {
			return err
		}
		if _, err := out.Seek(from, io.SeekStart); err != nil {
			return err
		}
		if _, err := io.Copy(out, io.NewSectionReader(in, from, end-from)); err != nil {
			return err
		}
		at = end
	}
	return nil
}

// LeftOut is a file or directory in a work tree that a commit cannot contain. Ignored files and the agents' own files
// do not count.
type LeftOut struct {
	Path string
	Kind LeftKind
	// Submodule is the path of the submodule that contains the file, for InSubmodule.
	Submodule string
}

// LeftKind is the reason why a commit cannot contain a file.
type LeftKind int

// The reasons why a commit cannot contain a file.
const (
	RefusedName   LeftKind = iota // git refuses the name
	InSubmodule                   // the file is in the directory of a submodule
	NestedHistory                 // the .git of a nested repository whose files the commit contains
)

// maxLeftOut is the maximum length of a list of left-out files.
const maxLeftOut = 1000

// nestedIn returns the .git of each nested repository that contains at least one changed file. This excludes nested
// repositories in ignored directories.
func nestedIn(nested map[string]string, changes []change) (left []LeftOut) {
	if len(nested) == 0 {
		return nil
	}
	found := map[string]bool{}
	for _, c := range changes {
		if c.mode == modeNone {
			continue
		}
		for dir := path.Dir(c.path); dir != "."; dir = path.Dir(dir) {
			if git, ok := nested[dir]; ok && !found[git] {
				found[git] = true
				left = append(left, LeftOut{Path: git, Kind: NestedHistory})
			}
		}
	}
	return left
}

// inSubmodules lists the files in submodule directories of the staging directory, except files excluded by an ignore
// file of the tree. The index must hold the tree. inSubmodules removes the submodules from the index.
func (t *task) inSubmodules(ctx context.Context) (left []LeftOut, err error) {
	var modules []string // sorted
	c := t.staged("", "ls-files", "-z", "--cached", "--stage")
	c.unbounded = true
	err = t.git.records(ctx, c, 0, func(record []byte) error { // <mode> <sha> <stage> TAB <path>
		about, name, _ := strings.Cut(string(record), "\t")
		if strings.HasPrefix(about, modeSubmodule) {
			modules = append(modules, name)
		}
		return nil
	})
	if err != nil || len(modules) == 0 {
		return nil, err
	}
	if _, err := t.git.run(ctx, t.staged(strings.Join(modules, "\x00")+"\x00", "update-index", "--force-remove", "-z",
		"--stdin")); err != nil {
		return nil, err
	}
	// Git has added all other files, so the untracked files are in submodule directories.
	err = t.git.records(ctx, t.staged("", "ls-files", "-z", "--others", "--exclude-standard"), 0,
		func(name []byte) error {
			i := slices.IndexFunc(modules, func(m string) bool { return strings.HasPrefix(string(name), m+"/") })
			if i < 0 {
				return nil
			}
			if left = append(left, LeftOut{string(name), InSubmodule, modules[i]}); len(left) == maxLeftOut {
				return errEnough
			}
			return nil
		})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return left, err
}

// gitRefuses reports whether git refuses a name. Git refuses names that some file system treats as .git, and links with
// names that some file system treats as .gitmodules.
func gitRefuses(name string, link bool) bool {
	for part := range strings.SplitSeq(name, `\`) { // Windows separates paths with a backslash
		stem, _, _ := strings.Cut(strings.ToLower(withoutIgnored(part)), ":") // NTFS ends the name at a colon
		switch stem = strings.TrimRight(stem, " ."); {
		case stem == ".git", stem == "git~1":
			return true
		case link && (stem == ".gitmodules" || strings.HasPrefix(stem, "gitmod~")):
			return true
		}
	}
	return false
}

// withoutIgnored removes the characters that HFS+ ignores in a name.
func withoutIgnored(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
			return -1
		}
		return r
	}, name)
}
