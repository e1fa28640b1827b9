package container

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Labels on everything that this package creates.
const (
	LabelFleet   = "retake.fleet"   // the director's fleet; on containers and the network
	LabelOwner   = "retake.owner"   // the installation that made a container; see Options.Owner
	LabelTask    = "retake.task"    // issue key, "owner/repo#n"
	LabelAttempt = "retake.attempt" // attempt id, the same as the container's name
)

// Dir has the worker's program in every container. With Spec.Files it belongs to the worker's user, so that the
// worker can remove them; without, nobody can write to it.
const Dir = "/retake"

// WorkerPath is where Spec.WorkerBinary appears.
const WorkerPath = Dir + "/worker"

// minMemory is the least limit that Docker accepts.
const minMemory = 6 << 20

// Spec describes an attempt's container. Every field is required unless its comment says otherwise.
type Spec struct {
	AttemptID string // container name; letters, digits, "_.-"
	Task      string // issue key, for people and lists
	Image     string // any image; nothing of ours is needed in it, its own settings are overridden
	Workdir   string // absolute path in the container, outside of Dir
	// absolute path on the daemon's host, mounted writable at Workdir; empty: Workdir is empty at first,
	// belongs to User, and goes with the attempt
	Checkout   string
	Entrypoint []string // argument vector of the first process; the image's CMD is not appended
	Files      []File   // optional; put into Dir before the start, owned by User and readable by nobody else
	// optional; all that the first process reads of its standard input, in no file and no argument
	Stdin        []byte
	WorkerBinary string   // static executable readable by this process, put at WorkerPath; knows supervisor.Command
	Env          []string // optional; KEY=VALUE
	Mounts       []Mount  // optional
	Scratch      []string // optional; paths in the container where everybody may write, empty at first, in its memory
	// the image's files cannot be changed: only mounts, Scratch, /tmp, /var/tmp, /run, the home, and Dir with Files
	ReadOnly bool
	Memory   int64   // bytes, at least 6 MiB; swap does not come on top of it, tmpfs counts
	CPUs     float64 // above 0
	Pids     int64   // at least 1; threads count
	User     string  // numeric "uid" or "uid:gid", not root; need not exist in the image

	// optional; what runs it may end it after so long, whatever becomes of the director. Kubernetes does
	Life time.Duration
}

// File is put into Dir before the container starts.
type File struct {
	Name string // without a folder
	Data []byte
}

// Mount makes a host path or a volume visible in the container. Which ones are allowed is checked with the
// configuration.
type Mount struct {
	Source   string // absolute path on the daemon's host, or a volume's name (made when absent)
	Target   string // absolute path in the container
	ReadOnly bool
	Volume   bool // Source is a volume; unless ReadOnly its root is given to Spec.User
}

var attemptName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{1,127}$`)

// Validate refuses what must not run, before the daemon is asked. What only the daemon can know (does the path exist,
// are there so many CPUs) is the daemon's to refuse.
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
			return refused(doing, "env: want KEY=VALUE") // without the text: it may be a secret
		}
	}
	for _, p := range s.Scratch {
		if !clean(p) || p == "/" || within(p, Dir) || within(Dir, p) {
			return refused(doing, "scratch %q: want a clean absolute path, not / and not in %s", p, Dir)
		}
	}
	for _, f := range s.Files {
		if f.Name == "" || path.Base(f.Name) != f.Name || f.Name == path.Base(WorkerPath) {
			return refused(doing, "file %q: want a name without a folder, other than the worker's", f.Name)
		}
	}
	return nil
}

// IDs reads User. Names are refused: they are looked up in the image, which may have none, or a surprising one.
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

// sockets are where a Docker socket usually is. Whoever holds one is root on the host.
var sockets = []string{"/var/run/docker.sock", "/run/docker.sock"}

func clean(p string) bool { return path.IsAbs(p) && path.Clean(p) == p }

// within reports whether p is dir or lies in it; both are clean.
func within(p, dir string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir+"/")
}
