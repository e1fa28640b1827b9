package workspace

import (
	"context"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"retake/internal/safefile"
)

// fetchBase brings the mirror up to date and returns the commit of the base branch. One caller at a time per
// repository.
func (w *Workspaces) fetchBase(ctx context.Context, repo, branch string, r remote) (sha string, err error) {
	op := "fetch " + repo
	lock, err := w.lockMirror(ctx, repo)
	if err != nil {
		return "", err
	}
	defer lock.unlock()
	sha, err = w.fetchInto(ctx, op, w.mirrorDir(repo), branch, r, lock)
	if errors.Is(err, ErrDamaged) {
		sha, err = w.renewMirror(ctx, op, repo, branch, r, lock, err)
	}
	return sha, err
}

func (w *Workspaces) fetchInto(ctx context.Context, op, dir, branch string, r remote,
	lock *fileLock,
) (sha string, err error) {
	if err := w.initGitDir(ctx, op, dir, lock); err != nil {
		return "", err
	}
	config, secrets, err := w.credentials(ctx, op, r)
	if err != nil {
		return "", err
	}
	// The branch's name in hex: no two of them can stand in each other's way as file and folder.
	ref := "refs/retake/base/" + hex.EncodeToString([]byte(branch))
	_, err = w.git.run(ctx, call{
		op: op, dir: dir, gitDir: dir, config: config, secrets: secrets, lock: lock, remote: true,
		args: []string{
			"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance",
			"--no-recurse-submodules",
			"--force", "--", r.url, "+refs/heads/" + branch + ":" + ref,
		},
	})
	if err != nil {
		return "", err
	}
	return w.resolve(ctx, op, dir, ref+"^{commit}", lock)
}

// initGitDir makes a bare git directory without templates, so without hooks. In an existing one it only removes what a
// killed git left in the way.
func (w *Workspaces) initGitDir(ctx context.Context, op, dir string, lock *fileLock) error {
	if err := safefile.MkdirAll(dir, 0o700); err != nil {
		return system(op, err)
	}
	if err := removeStaleLocks(dir); err != nil {
		return system(op, err)
	}
	_, missing := os.Lstat(filepath.Join(dir, "HEAD"))
	_, err := w.ask(ctx, op, dir, lock, "init", "--quiet", "--bare", "--template=")
	if err == nil && missing != nil { // git syncs objects and refs, and not what makes it a repository
		err = system(op, safefile.SyncDisk(dir))
	}
	return err
}

// ask runs git on what no agent made in a git directory, and returns the answer without the line break at its end.
func (w *Workspaces) ask(ctx context.Context, op, gitDir string, lock *fileLock, args ...string) (string, error) {
	out, err := w.git.run(ctx, call{op: op, dir: gitDir, gitDir: gitDir, lock: lock, base: true, args: args})
	return strings.TrimSpace(out), err
}

func (w *Workspaces) resolve(ctx context.Context, op, gitDir, rev string, lock *fileLock) (string, error) {
	sha, err := w.ask(ctx, op, gitDir, lock, "rev-parse", "--verify", "--quiet", "--end-of-options", rev)
	if err == nil && !shaForm.MatchString(sha) {
		return "", refuse(op, "", "git resolves %s to %.80q", rev, sha)
	}
	return sha, err
}

// removeStaleLocks removes what a killed git left behind. We hold the folder's own lock, so no git is at work in it.
func removeStaleLocks(gitDir string) error {
	return filepath.WalkDir(gitDir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path == filepath.Join(gitDir, "objects"):
			return filepath.SkipDir
		case !d.IsDir() && strings.HasSuffix(path, ".lock"):
			return os.Remove(path)
		}
		return nil
	})
}
