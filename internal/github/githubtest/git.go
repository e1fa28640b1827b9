package githubtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// gitTimeout is the time limit for one run of git. The repositories are local and small.
const gitTimeout = 30 * time.Second

// quiet isolates git from the user's settings, and lets it serve repositories owned by another user.
var quiet = []string{
	"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0", "HOME=/nonexistent",
	"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
}

// git runs a git program and returns its output, even if the program fails.
func git(dir string, env []string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), gitTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), quiet...), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return strings.TrimSpace(out.String()), fmt.Errorf("githubtest: git %s: %w: %s", args[0], err,
			strings.TrimSpace(errs.String()))
	}
	return strings.TrimSpace(out.String()), nil
}

func (s *store) bare(fullName string) string {
	return filepath.Join(s.opts.DataDir, filepath.FromSlash(strings.ToLower(fullName))+".git")
}

// seed creates the bare repository unless it exists, and commits a directory to main. Author and time are fixed, so the
// same directory produces the same commit. seed renames the repository to its final name at the end, so a killed
// process cannot leave an incomplete repository.
func (s *store) seed(fullName, from string) error {
	dir := s.bare(fullName)
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	fresh := dir + ".new"
	if err := errors.Join(os.RemoveAll(fresh), os.MkdirAll(fresh, 0o755)); err != nil {
		return fmt.Errorf("githubtest: %w", err)
	}
	if _, err := git(fresh, nil, "init", "-q", "--bare", "-b", "main"); err != nil {
		return err
	}
	if _, err := git(fresh, nil, "config", "http.receivepack", "true"); err != nil {
		return err
	}
	if from != "" {
		if err := firstCommit(fresh, from); err != nil {
			return err
		}
	}
	if err := os.Rename(fresh, dir); err != nil {
		return fmt.Errorf("githubtest: %w", err)
	}
	return nil
}

func firstCommit(dir, from string) error {
	from, err := filepath.Abs(from)
	if err != nil {
		return fmt.Errorf("githubtest: %w", err)
	}
	who := []string{
		"GIT_AUTHOR_NAME=Octocat", "GIT_AUTHOR_EMAIL=octocat@example.com", "GIT_AUTHOR_DATE=2026-01-01T00:00:00Z",
		"GIT_COMMITTER_NAME=Octocat", "GIT_COMMITTER_EMAIL=octocat@example.com",
		"GIT_COMMITTER_DATE=2026-01-01T00:00:00Z",
		"GIT_DIR=" + dir, "GIT_WORK_TREE=" + from, "GIT_INDEX_FILE=" + filepath.Join(dir, "seed.index"),
	}
	defer func() { _ = os.Remove(filepath.Join(dir, "seed.index")) }()
	if _, err := git(from, who, "add", "-A", "."); err != nil {
		return err
	}
	tree, err := git(from, who, "write-tree")
	if err != nil {
		return err
	}
	commit, err := git(from, who, "commit-tree", "-m", "First commit", tree)
	if err != nil {
		return err
	}
	_, err = git(dir, nil, "update-ref", "refs/heads/main", commit)
	return err
}

// commitOf returns the commit at the tip of a branch.
func (s *store) commitOf(fullName, branch string) (string, bool) {
	if s.opts.DataDir == "" || branch == "" || strings.HasPrefix(branch, "-") {
		return "", false
	}
	sha, err := git(s.bare(fullName), nil, "rev-parse", "--verify", "-q", "refs/heads/"+branch)
	return sha, err == nil
}

// gitPrograms returns the directory of the programs that git starts.
var gitPrograms = sync.OnceValues(func() (string, error) { return git("", nil, "--exec-path") })

// serveGit passes a request to git http-backend. Everybody may fetch, but a push needs the token of a user with write
// access.
func (s *gate) serveGit(w http.ResponseWriter, r *http.Request) {
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), ".git/")
	s.mu.Lock()
	repo, u := s.repos[strings.ToLower(name)], s.apps.byToken(r)
	allowed := repo != nil && u != nil && repo.mayWrite(u)
	s.mu.Unlock()
	if s.gitFault(w, r) {
		return
	}
	push := strings.HasSuffix(r.URL.Path, "/git-receive-pack") || r.URL.Query().Get("service") == "git-receive-pack"
	switch {
	case repo == nil:
		http.NotFound(w, r)
		return
	case push && u == nil:
		w.Header().Set("WWW-Authenticate", `Basic realm="GitHub stand-in"`)
		http.Error(w, "a push requires a token", http.StatusUnauthorized)
		return
	case push && !allowed:
		http.Error(w, "no write access", http.StatusForbidden)
		return
	}
	if err := spool(r); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	defer func() { _ = r.Body.Close() }()
	programs, err := gitPrograms()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	r.URL.Path = "/" + strings.ToLower(name) + strings.TrimPrefix(r.URL.Path, "/"+name)
	env := append([]string{"GIT_PROJECT_ROOT=" + s.opts.DataDir, "GIT_HTTP_EXPORT_ALL=1"}, quiet...)
	if push {
		env = append(env, "REMOTE_USER="+u.login)
	}
	if v := r.Header.Get("Git-Protocol"); v != "" {
		env = append(env, "GIT_PROTOCOL="+v)
	}
	if strings.HasSuffix(r.URL.Path, "/git-receive-pack") {
		defer func() {
			s.mu.Lock()
			s.followHeads(repo, u)
			s.unlock()
		}()
	}
	(&cgi.Handler{Path: filepath.Join(programs, "git-http-backend"), Env: env, Stderr: io.Discard}).ServeHTTP(w, r)
}

// gitFault answers a request to which a fault applies. It sends the body as plain text, because git does not show
// others.
func (s *gate) gitFault(w http.ResponseWriter, r *http.Request) bool {
	s.mu.Lock()
	f := s.fault(true, r.Method, r.URL.RequestURI())
	s.mu.Unlock()
	switch {
	case f == nil:
		return false
	case f.CutBefore || f.Status == 0:
		panic(http.ErrAbortHandler)
	}
	for k, v := range f.Header {
		w.Header().Set(k, v)
	}
	http.Error(w, f.Body, f.Status)
	return true
}

// spoolLimit is the maximum size of a push, in bytes.
const spoolLimit = 256 << 20

// spool copies a chunked request body to a file, because CGI needs its length. Git sends packs over 1 MiB in chunks.
func spool(r *http.Request) error {
	if r.ContentLength >= 0 {
		return nil
	}
	f, err := os.CreateTemp("", "githubsim-push-*")
	if err != nil {
		return fmt.Errorf("githubtest: %w", err)
	}
	_ = os.Remove(f.Name()) // the open file remains readable
	n, err := io.Copy(f, io.LimitReader(r.Body, spoolLimit+1))
	if err == nil && n > spoolLimit {
		err = errors.New("push is too large")
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("githubtest: %w", err), f.Close())
	}
	r.Body, r.ContentLength, r.TransferEncoding = f, n, nil
	return nil
}
