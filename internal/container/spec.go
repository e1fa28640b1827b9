package container

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Labels of all objects that this package creates.
const (
	LabelFleet   = "retake.fleet"   // the director's fleet, on containers and the network
	LabelOwner   = "retake.owner"   // the installation that made a container; see Options.Owner
	LabelTask    = "retake.task"    // issue key, "owner/repo#n"
	LabelAttempt = "retake.attempt" // attempt id, the same as the container's name
)

// Dir contains the worker binary in every container. With Spec.Files, it belongs to the worker's user so that the
// worker can remove the files; otherwise it is read-only.
const Dir = "/retake"

// WorkerPath is the path of Spec.WorkerBinary in the container.
const WorkerPath = Dir + "/worker"

// minMemory is Docker's minimum for a container.
const minMemory = 6 << 20

// Spec describes an attempt's container. Fields are required unless their comments say otherwise.
type Spec struct {
	AttemptID string // container name; letters, digits, "_.-"
	Task      string // issue key, for messages and lists
	Image     string // any image, even an empty one; the spec overrides its settings
	Workdir   string // absolute path in the container, outside Dir
	// Checkout is an absolute path on the daemon's host, mounted writable at Workdir. If empty, Workdir is an empty
	// directory that belongs to User and is removed with the attempt.
	Checkout   string
	Entrypoint []string // argument vector of the first process, without the image's CMD
	Files      []File   // optional; copied into Dir before the start, readable only by User
	// Stdin is optional. It is the first process's entire standard input and never appears in a file or argument.
	Stdin        []byte
	WorkerBinary string   // static executable on this host, copied to WorkerPath; implements supervisor.Command
	Env          []string // optional; KEY=VALUE
	Mounts       []Mount  // optional
	Scratch      []string // optional; in-memory, world-writable directories, initially empty
	// ReadOnly makes the container's file system read-only, except for mounts, Scratch, /tmp, /var/tmp, /run, the home
	// directory and, with Files, Dir.
	ReadOnly bool
	Memory   int64   // bytes, at least 6 MiB; includes swap and tmpfs
	CPUs     float64 // positive
	Pids     int64   // at least 1; includes threads
	User     string  // numeric "uid" or "uid:gid", not root; need not exist in the image

	// Life is optional. Kubernetes ends the attempt after this time, even if the director is down. Other runtimes
	// ignore it.
	Life time.Duration
}

// File is copied into Dir before the container starts.
type File struct {
	Name string // a name without a directory
	Data []byte
}

// Mount makes a host path or a volume visible in the container. The configuration checks which mounts are allowed.
type Mount struct {
	Source   string // absolute path on the daemon's host, or the name of a volume, created if absent
	Target   string // absolute path in the container
	ReadOnly bool
	Volume   bool // Source is a volume; its root belongs to Spec.User unless ReadOnly
}

var attemptName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{1,127}$`)

// Validate rejects invalid specs before the first request. The daemon checks values that depend on its host, such as
// paths and the number of CPUs.
func (s Spec) Validate() error {
	doing := "attempt " + strconv.Quote(s.AttemptID)
	for _, c := range []struct {
		ok   bool
		want string
	}{
		{attemptName.MatchString(s.AttemptID), "attempt id: want 2 to 128 letters, digits, '_', '.', '-'"},
		{s.Image != "", "image: want a name"},
		{len(s.Entrypoint) > 0 && s.Entrypoint[0] != "", "entrypoint: want an argument vector"},
		{s.WorkerBinary != "", "worker binary: want a path"},
		{
			clean(s.Workdir) && s.Workdir != "/" && !within(s.Workdir, Dir),
			"workdir: want a clean absolute path, not / and not in " + Dir,
		},
		{s.Checkout == "" || clean(s.Checkout), "checkout: want a clean absolute path on the daemon's host, or none"},
		{s.Memory >= minMemory, "memory: want at least 6 MiB"},
		{s.CPUs > 0, "cpus: want more than 0"},
		{s.Pids >= 1, "pids: want at least 1"},
	} {
		if !c.ok {
			return refused(doing, "%s", c.want)
		}
	}
	if _, _, err := s.IDs(); err != nil {
		return refused(doing, "%w", err)
	}
	for _, e := range s.Env {
		if strings.Index(e, "=") < 1 {
			return refused(doing, "env: want KEY=VALUE") // omit the text, which may be a secret
		}
	}
	for _, p := range s.Scratch {
		if !clean(p) || p == "/" || within(p, Dir) || within(Dir, p) {
			return refused(doing, "scratch %q: want a clean absolute path, not / and not in %s", p, Dir)
		}
	}
	for _, f := range s.Files {
		if f.Name == "" || path.Base(f.Name) != f.Name || f.Name == path.Base(WorkerPath) {
			return refused(doing, "file %q: want a file name without a directory, other than the worker program",
				f.Name)
		}
	}
	return nil
}

// IDs parses User. It rejects names, because the image's passwd file may omit them or map them to unexpected IDs.
func (s Spec) IDs() (uid, gid int, err error) {
	first, second, both := strings.Cut(s.User, ":")
	uid, err = strconv.Atoi(first)
	if err == nil && both {
		gid, err = strconv.Atoi(second)
	} else {
		gid = uid
	}
	if err != nil || uid <= 0 || gid <= 0 {
		return 0, 0, fmt.Errorf("user %q: want numbers above 0, \"uid:gid\" or \"uid\" (workers never run as root)",
			s.User)
	}
	return uid, gid, nil
}

// sockets are the usual paths of the Docker socket. Access to it is equivalent to root on the host.
var sockets = []string{"/var/run/docker.sock", "/run/docker.sock"}

func clean(p string) bool { return path.IsAbs(p) && path.Clean(p) == p }

// within reports whether p is dir or below it. Both must be clean.
func within(p, dir string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir+"/")
}

// SharesFiles reports whether two mounts share files, even under different paths. It follows symlinks and compares
// directories by inode. It compares paths that do not exist on this machine literally, because the engine may run on
// another machine. It does not detect bind mounts on the host.
func (m Mount) SharesFiles(other Mount) bool {
	if m.Volume || other.Volume {
		return m.Volume == other.Volume && m.Source == other.Source
	}
	return holds(m.Source, other.Source) || holds(other.Source, m.Source)
}

// holds reports whether path is dir or below it.
func holds(dir, path string) bool {
	dir = resolved(dir)
	d, err := os.Stat(dir)
	for path = resolved(path); ; path = filepath.Dir(path) {
		if path == dir {
			return true
		}
		if p, pathErr := os.Stat(path); err == nil && pathErr == nil && os.SameFile(p, d) {
			return true
		}
		if path == filepath.Dir(path) {
			return false
		}
	}
}

// resolved resolves the links in the existing part of a path.
func resolved(path string) string {
	path = filepath.Clean(path)
	if to, err := filepath.EvalSymlinks(path); err == nil {
		return to
	}
	if dir := filepath.Dir(path); dir != path {
		return filepath.Join(resolved(dir), filepath.Base(path))
	}
	return path
}
