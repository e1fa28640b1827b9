package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"retake/internal/safefile"
	"retake/internal/worktree"
)

// Owner is who the files of a checkout belong to: the user that workers run as.
type Owner struct{ UID, GID int }

// Options of Open.
type Options struct {
	// Dir holds everything of this package; made if missing. The director's data directory.
	Dir string
	// Owner of the checkouts; nil: whoever the director runs as. Another owner than that needs root.
	Owner *Owner
	// Passable lets other users pass through the folders of tasks, though not look into them: for workers that
	// are plain processes of Owner.
	Passable bool
	// StatePaths are globs of what agents write for themselves, see package worktree: no commit has it unless
	// the base does.
	StatePaths []string
	// Auth gives the credentials for http(s) remotes, asked before each use; nil: none.
	Auth func(ctx context.Context) (user, token string, err error)
	// Limits of the checkouts.
	Limits Limits
	// Quota is what the files of a new checkout may use of the disk, in bytes; 0: as much as there is. It needs
	// root and loop devices.
	Quota int64
	// Log may be nil.
	Log *zap.Logger
}

// Workspaces is the folder of all tasks. Its methods may be called from many goroutines.
type Workspaces struct {
	dir      string
	owner    *Owner
	passable bool
	state    atomic.Pointer[worktree.Globs]
	limits   Limits
	quota    int64
	auth     func(ctx context.Context) (user, token string, err error)
	git      *program
	log      *zap.Logger

	stateMu sync.Mutex // one writer of STATE.json files at a time
	renewed sync.Map   // repository → time.Time: when its mirror was last fetched anew because it was damaged
}

// passable: go through, but see nothing.
const passable = 0o711

// LeaveOut replaces what agents write for themselves, for what is looked at from now on.
func (w *Workspaces) LeaveOut(state worktree.Globs) { w.state.Store(&state) }

// Open makes the folders and looks for git. It removes nothing.
func Open(o Options) (*Workspaces, error) {
	o.Log = cmp.Or(o.Log, zap.NewNop())
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
	git, err := findGit(o.Log, o.Limits.orDefaults())
	if err != nil {
		return nil, err
	}
	for _, sub := range []string{"mirrors", "tasks", "locks"} {
		// Nobody else needs to look in: Docker mounts a checkout without going through its parents.
		if err := safefile.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, system("open "+dir, err)
		}
	}
	if o.Passable {
		if err := os.Chmod(filepath.Join(dir, "tasks"), passable); err != nil {
			return nil, system("open "+dir, err)
		}
	}
	if err := checkWritable(filepath.Join(dir, "locks")); err != nil {
		return nil, system("open "+dir, err)
	}
	w := &Workspaces{
		dir: dir, owner: o.Owner, passable: o.Passable, limits: o.Limits.orDefaults(), quota: o.Quota,
		auth: o.Auth, git: git, log: o.Log,
	}
	w.LeaveOut(state)
	return w, nil
}

func checkOwner(o *Owner, uid, gid int) error {
	if o == nil || uid == 0 || o.UID == uid && o.GID == gid {
		return nil
	}
	return refuse("open",
		fmt.Sprintf("run the director as root or as %d:%d, or set containers.user to \"%d:%d\"", o.UID, o.GID, uid,
			gid),
		"checkouts must belong to %d:%d, but the director runs as %d:%d and cannot give files away", o.UID, o.GID, uid,
		gid)
}

func checkWritable(dir string) error {
	f, err := os.CreateTemp(dir, "probe-")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

func (w *Workspaces) mirrorDir(repo string) string {
	return filepath.Join(w.dir, "mirrors", filepath.FromSlash(repo)+".git")
}

func (w *Workspaces) lockMirror(ctx context.Context, repo string) (*fileLock, error) {
	// "+" occurs in no owner or name, so no two repositories share a lock.
	return lockFile(ctx, filepath.Join(w.dir, "locks", "mirror-"+strings.ReplaceAll(repo, "/", "+")))
}

func (w *Workspaces) lockTask(ctx context.Context, nonce string) (*fileLock, error) {
	return lockFile(ctx, filepath.Join(w.dir, "locks", "task-"+nonce))
}

// credentials asks Auth, if this remote can use any.
func (w *Workspaces) credentials(ctx context.Context, op string,
	r remote,
) (config [][2]string, secrets []string, err error) {
	var user, token string
	if w.auth != nil && r.origin != "" {
		if user, token, err = w.auth(ctx); err != nil {
			return nil, nil, &Error{
				Kind: Auth, Op: op, Detail: "no credentials: " + err.Error(), Next: nextCredentials,
				Err: err,
			}
		}
	}
	config, secrets = r.config(user, token)
	return config, secrets, nil
}
