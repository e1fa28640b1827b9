package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"go.uber.org/zap"

	"retake/internal/safefile"
	"retake/internal/worktree"
)

// Owner is the user that workers run as, and the owner of the files in a checkout.
type Owner struct{ UID, GID int }

// Options of Open.
type Options struct {
	// Dir is the director's data directory, created if missing. This package keeps all its files there.
	Dir string
	// Owner of the checkouts. Nil means the director's own user. Any other owner requires root.
	Owner *Owner
	// Passable lets other users traverse task directories without listing them. It is required if workers are plain
	// processes of Owner.
	Passable bool
	// StatePaths are globs (see package worktree) of files that agents write for their own use. Commits contain
	// such a file only if the base does.
	StatePaths []string
	// Auth returns the credentials for http(s) remotes and is called before each use. Nil means no credentials.
	Auth func(ctx context.Context) (user, token string, err error)
	// Limits bound the checkouts.
	Limits Limits
	// Quota limits the disk usage of a new checkout, in bytes. Zero means no limit. A quota needs root and loop
	// devices.
	Quota int64
	// Log may be nil.
	Log *zap.Logger
}

// Workspaces manages the checkouts of all tasks. Its methods are safe for concurrent use.
type Workspaces struct {
	tasks     *tasks
	trees     *workTrees
	mirrors   *mirrors
	snapshots *snapshots
	repairs   *repairs
	log       *zap.Logger

	stateMu sync.Mutex // serializes writes of STATE.json files
}

// passable lets other users traverse a directory but not list it.
const passable = 0o711

// LeaveOut replaces the globs of Options.StatePaths for later operations.
func (w *Workspaces) LeaveOut(state worktree.Globs) { w.snapshots.state.Store(&state) }

// Open creates the directories and finds git. It does not remove tasks.
func Open(o Options) (*Workspaces, error) {
	log, limits := cmp.Or(o.Log, zap.NewNop()), o.Limits.orDefaults()
	if o.Dir == "" {
		return nil, refuse("open", "set director.data_dir", "no data directory")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, system("open "+o.Dir, err)
	}
	if err := checkOwner(o.Owner, os.Geteuid(), os.Getegid()); err != nil {
		return nil, err
	}
	if err := CheckQuota(o.Quota); err != nil {
		return nil, err
	}
	state, err := worktree.Compile(o.StatePaths)
	if err != nil {
		return nil, refuse("open", "correct state_paths", "%v", err)
	}
	git, err := findGit(log, limits)
	if err != nil {
		return nil, err
	}
	if err := makeFolders(dir, o.Passable); err != nil {
		return nil, system("open "+dir, err)
	}
	w := &Workspaces{log: log, snapshots: &snapshots{limits: limits, log: log}}
	w.trees = &workTrees{owner: o.Owner, passable: o.Passable, quota: o.Quota, log: log}
	w.tasks = &tasks{dir: dir, git: git, trees: w.trees}
	w.mirrors = &mirrors{dir: dir, remotes: &remotes{git: git, auth: o.Auth}, log: log}
	w.repairs = &repairs{tasks: w.tasks, mirrors: w.mirrors, log: log}
	w.LeaveOut(state)
	return w, nil
}

func makeFolders(dir string, passThrough bool) error {
	for _, sub := range []string{"mirrors", "tasks", "locks"} {
		// Docker mounts a checkout without traversing its parents, so other users do not need access.
		if err := safefile.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return err
		}
	}
	if passThrough {
		if err := os.Chmod(filepath.Join(dir, "tasks"), passable); err != nil {
			return err
		}
	}
	probe, err := os.CreateTemp(filepath.Join(dir, "locks"), "probe-")
	if err != nil {
		return err
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

func checkOwner(o *Owner, uid, gid int) error {
	if o == nil || uid == 0 || o.UID == uid && o.GID == gid {
		return nil
	}
	return refuse("open",
		fmt.Sprintf("run the director as root or as %d:%d, or set containers.user to \"%d:%d\"", o.UID, o.GID, uid,
			gid),
		"checkouts must belong to %d:%d, but the director runs as %d:%d and cannot change file ownership",
		o.UID, o.GID, uid,
		gid)
}
