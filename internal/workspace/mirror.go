package workspace

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"retake/internal/safefile"
)

// remotes runs the git commands that talk to servers, with the credentials from auth.
type remotes struct {
	git  *program
	auth func(ctx context.Context) (user, token string, err error)
}

// run runs a git command that talks to the server of r.
func (s *remotes) run(ctx context.Context, c call, r remote) (string, error) {
	var user, token string
	if s.auth != nil && r.origin != "" {
		var err error
		if user, token, err = s.auth(ctx); err != nil {
			return "", &Error{
				Kind: Auth, Op: c.op, Detail: "no credentials: " + err.Error(), Next: nextCredentials,
				Err: err,
			}
		}
	}
	c.config, c.secrets = r.config(user, token)
	c.remote = true
	return s.git.run(ctx, c)
}

// fetch fetches one refspec.
func (s *remotes) fetch(ctx context.Context, o objects, r remote, args ...string) error {
	args = append([]string{
		"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance",
		"--no-recurse-submodules",
	}, args...)
	_, err := s.run(ctx, o.call(args...), r)
	return err
}

// obtain reports whether a git directory has a commit, after fetching the commit if necessary. It returns false only if
// the server does not have the commit. An outage is an error.
func (s *remotes) obtain(ctx context.Context, o objects, sha string, r remote) (bool, error) {
	there, err := o.hasTree(ctx, sha)
	if there || err != nil {
		return there, err
	}
	err = s.fetch(ctx, o, r, "--", r.url, sha)
	switch {
	case errors.Is(err, errNoCommit):
		return false, nil
	case err != nil:
		return false, err
	}
	return o.hasTree(ctx, sha)
}

// missing explains err, which reports a missing branch. It adds the name of the repository's default branch, or says
// that the repository is empty.
func (s *remotes) missing(ctx context.Context, o objects, branch string, r remote, err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Next != nextBranch { // the repository itself is missing
		return err
	}
	found := Error{Kind: e.Kind, Op: e.Op, Err: ErrNoBranch}
	out, askErr := s.run(ctx, o.call("ls-remote", "--quiet", "--symref", "--", r.url, "HEAD"), r)
	head, _, _ := strings.Cut(out, "\t")
	name, ok := strings.CutPrefix(head, "ref: refs/heads/")
	switch {
	case askErr != nil || !ok:
	case name == branch:
		found.Kind, found.Err = Transient, err
		found.Detail = "the server contradicts itself: branch " + branch + " was missing, and is listed now"
		return &found
	default:
		found.Detail = fmt.Sprintf("the repository has no branch %s; its default branch is %s", branch, name)
		found.Next = "was it renamed? Set github.base_branch to the branch to work on"
		return &found
	}
	if heads, listErr := s.heads(ctx, o.call(), r, "*"); askErr == nil && listErr == nil && len(heads) == 0 {
		found.Detail = "the repository is empty, so it has no branch " + branch
		found.Next = "push a first commit to that branch"
		return &found
	}
	return err
}

// mirrors manages the directories under <dir>/mirrors. Each contains the objects of one repository.
type mirrors struct {
	dir     string // the data directory
	remotes *remotes
	log     *zap.Logger

	renewed sync.Map // repository → time of the last refetch after damage
	fetches fetches
}

func (m *mirrors) path(repo string) string {
	return filepath.Join(m.dir, "mirrors", filepath.FromSlash(repo)+".git")
}

// at returns a repository's mirror for one operation.
func (m *mirrors) at(op, repo string, lock *fileLock) objects {
	return objects{git: m.remotes.git, op: op, gitDir: m.path(repo), lock: lock}
}

func (m *mirrors) lock(ctx context.Context, repo string) (*fileLock, error) {
	// "+" is not valid in an owner or name, so two repositories never share a lock.
	return lockFile(ctx, filepath.Join(m.dir, "locks", "mirror-"+strings.ReplaceAll(repo, "/", "+")))
}

// head updates the mirror and returns a branch's head commit. Fetches of one repository run one at a time, and each
// serves all callers that were waiting when it started. Otherwise, many tasks would wait for just as many fetches.
func (m *mirrors) head(ctx context.Context, repo, branch string, r remote) (string, error) {
	want := wanted{repo, branch, r.url}
	for {
		f, first := m.fetches.join(want)
		if first {
			m.serve(ctx, f, want, r)
		}
		select {
		case <-f.done:
			if !f.interrupted || first {
				return f.sha, f.err
			}
		case <-ctx.Done():
			return "", interrupted(ctx, "fetch "+repo)
		}
	}
}

// serve runs a fetch for all callers that join before it starts.
func (m *mirrors) serve(ctx context.Context, f *fetch, want wanted, r remote) {
	defer close(f.done)
	lock, err := m.lock(ctx, want.repo)
	m.fetches.begin(want)
	if err == nil {
		f.sha, err = m.update(ctx, lock, want.repo, want.branch, r)
		lock.unlock()
	}
	f.err, f.interrupted = err, err != nil && ctx.Err() != nil
}

func (m *mirrors) update(ctx context.Context, lock *fileLock, repo, branch string, r remote) (sha string,
	err error,
) {
	mirror := m.at("fetch "+repo, repo, lock)
	sha, err = m.fetch(ctx, mirror, branch, r)
	if errors.Is(err, ErrDamaged) {
		sha, err = m.renew(ctx, mirror, repo, branch, r, err)
	}
	return sha, err
}

// fetch updates a mirror. A mirror without commits adopts the server's object format.
func (m *mirrors) fetch(ctx context.Context, mirror objects, branch string, r remote) (sha string, err error) {
	sha, err = m.fetchAs(ctx, mirror, "", branch, r)
	switch {
	case errors.Is(err, ErrNotThere):
		return "", m.remotes.missing(ctx, mirror, branch, r, err)
	case !errors.Is(err, ErrFormat):
		return sha, err
	}
	if refs, listErr := mirror.ask(ctx, "for-each-ref", "--count=1"); listErr != nil || refs != "" {
		return "", errors.Join(err, listErr) // keep the mirror, because tasks depend on its objects
	}
	if err := safefile.RemoveAll(mirror.gitDir); err != nil {
		return "", system(mirror.op, err)
	}
	return m.fetchAs(ctx, mirror, formatSHA256, branch, r)
}

func (m *mirrors) fetchAs(ctx context.Context, mirror objects, format, branch string, r remote) (sha string,
	err error,
) {
	if err := mirror.init(ctx, format); err != nil {
		return "", err
	}
	// The branch name is hex-encoded, so that no two names conflict as file and directory.
	ref := "refs/retake/base/" + hex.EncodeToString([]byte(branch))
	if err := m.remotes.fetch(ctx, mirror, r, "--force", "--", r.url, "+refs/heads/"+branch+":"+ref); err != nil {
		return "", err
	}
	return mirror.resolve(ctx, ref+"^{commit}")
}

// lend creates a task's git directory, which borrows the mirror's objects and has the mirror's object format.
func (m *mirrors) lend(ctx context.Context, o objects, repo, format string) error {
	if err := o.init(ctx, format); err != nil {
		return err
	}
	// The path is relative to the objects directory, so that the data directory can be moved.
	alternates, err := filepath.Rel(filepath.Join(o.gitDir, "objects"), filepath.Join(m.path(repo), "objects"))
	for _, f := range []struct{ name, text string }{
		{"objects/info/alternates", filepath.ToSlash(alternates) + "\n"},
		{"info/exclude", infoExclude},
		{"info/attributes", infoAttributes},
	} {
		path := filepath.Join(o.gitDir, filepath.FromSlash(f.name))
		if err == nil {
			err = safefile.MkdirAll(filepath.Dir(path), 0o700)
		}
		if err == nil {
			err = safefile.Write(path, 0o600, []byte(f.text))
		}
	}
	return system(o.op, err)
}

// renewEvery is the minimum time between refetches of a mirror for tasks that find its objects damaged. One refetch
// repairs the mirror for all of its tasks.
const renewEvery = 10 * time.Minute

// renewOnce refetches the mirror unless another call has done so within renewEvery.
func (m *mirrors) renewOnce(ctx context.Context, op string, rec *record, r remote, why error) error {
	lock, err := m.lock(ctx, rec.Repo)
	if err != nil {
		return err
	}
	defer lock.unlock()
	if at, ok := m.renewed.Load(rec.Repo); ok && time.Since(at.(time.Time)) < renewEvery {
		return nil
	}
	_, err = m.renew(ctx, m.at(op, rec.Repo, lock), rec.Repo, rec.BaseBranch, r, why)
	return err
}

// renew fetches a mirror into a new directory, which replaces the damaged one. The remote still has all objects.
func (m *mirrors) renew(ctx context.Context, mirror objects, repo, branch string, r remote,
	why error,
) (string, error) {
	m.log.Warn("refetching damaged mirror", zap.String("repo", repo), zap.Error(why))
	fresh := mirror
	fresh.gitDir = mirror.gitDir + ".new"
	if err := safefile.RemoveAll(fresh.gitDir); err != nil {
		return "", system(mirror.op, err)
	}
	sha, err := m.fetch(ctx, fresh, branch, r)
	if err == nil {
		err = system(mirror.op, replaceDir(fresh.gitDir, mirror.gitDir))
	}
	if err == nil {
		m.renewed.Store(repo, time.Now())
	}
	return sha, err
}

// replaceDir replaces dir with fresh. After a crash, dir may be the old directory, the new one, or missing.
func replaceDir(fresh, dir string) error {
	old := dir + ".old"
	if err := safefile.RemoveAll(old); err != nil {
		return err
	}
	if err := safefile.Rename(dir, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return errors.Join(safefile.Rename(fresh, dir), safefile.RemoveAll(old))
}

// fetches manages the pending fetches: at most one for each branch.
type fetches struct {
	mu   sync.Mutex
	next map[wanted]*fetch
}

// wanted is the branch to fetch.
type wanted struct{ repo, branch, url string }

// fetch is a fetch shared by several callers. The fields other than done are valid once done is closed.
type fetch struct {
	done        chan struct{}
	sha         string
	err         error
	interrupted bool // the caller that ran it was canceled, so the others need another fetch
}

// join returns the next fetch. The first caller must run it.
func (s *fetches) join(want wanted) (f *fetch, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f, ok := s.next[want]; ok {
		return f, false
	}
	if s.next == nil {
		s.next = map[wanted]*fetch{}
	}
	f = &fetch{done: make(chan struct{})}
	s.next[want] = f
	return f, true
}

// begin makes later callers join another fetch.
func (s *fetches) begin(want wanted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.next, want)
}

// BaseFile is a file on a base branch.
type BaseFile struct {
	Name   string // "" if none of the names exists
	Commit string // the commit that was searched
	Data   []byte // truncated to one byte more than the limit
	Odd    string // the type if it is not a regular file, such as "a symbolic link"; otherwise empty
}

// BaseFile reads a commit of the base branch, and returns the first existing file among names, truncated to limit+1
// bytes. If at is empty, BaseFile fetches the branch and reads its head. Otherwise, at must be a commit of the base
// branch, because BaseFile cannot tell it from the work of an agent.
func (w *Workspaces) BaseFile(ctx context.Context, q Request, at string, limit int, names ...string) (BaseFile, error) {
	op := "read the contract of " + q.Repo
	r, err := parseRemote(op, q.RemoteURL)
	if err == nil {
		err = checkRepo(op, q.Repo)
	}
	if err != nil {
		return BaseFile{}, err
	}
	mirror := w.mirrors.at(op, q.Repo, nil)
	if at == "" {
		at, err = w.mirrors.head(ctx, q.Repo, q.BaseBranch, r)
	} else {
		mirror, err = w.mirrors.with(ctx, mirror, at, q, r)
	}
	if err != nil {
		return BaseFile{}, err
	}
	for _, name := range names {
		f, err := mirror.fileAt(ctx, at, name, limit)
		if err != nil || f.Name != "" {
			return f, err
		}
	}
	return BaseFile{Commit: at}, nil
}

// with returns a git directory with a commit: the mirror, or the task's own directory if the server no longer has the
// commit.
func (m *mirrors) with(ctx context.Context, mirror objects, sha string, q Request, r remote) (objects, error) {
	there, err := mirror.hasTree(ctx, sha)
	if there || err != nil {
		return mirror, err
	}
	own := objects{git: mirror.git, op: mirror.op, gitDir: filepath.Join(m.dir, "tasks", q.Nonce, "git")}
	if there, err := own.hasTree(ctx, sha); q.Nonce != "" && (there || err != nil) {
		return own, err
	}
	lock, err := m.lock(ctx, q.Repo)
	if err != nil {
		return mirror, err
	}
	defer lock.unlock()
	mirror.lock = lock
	if err := mirror.init(ctx, formatOf(sha)); err != nil {
		return mirror, err
	}
	there, err = m.remotes.obtain(ctx, mirror, sha, r)
	if err == nil && !there {
		err = &Error{
			Kind: Permanent, Op: mirror.op, Detail: "the server no longer has commit " + sha, Err: ErrNotThere,
		}
	}
	mirror.lock = nil
	return mirror, err
}

// Base returns the commit of the base branch that a task's checkout is based on.
func (w *Workspaces) Base(nonce string) (string, error) {
	t, err := w.tasks.find("read the base of "+nonce, nonce)
	if err == nil {
		err = t.load()
	}
	return t.rec.BaseSHA, err
}
