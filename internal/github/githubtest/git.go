package githubtest

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
	if _, err := git(fresh, nil, "config", "receive.autogc", "false"); err != nil {
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
	dir, ref := s.bare(fullName), "refs/heads/"+branch
	if filepath.IsLocal(branch) { // reading the file almost always avoids starting a process
		if loose, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(ref))); err == nil {
			return strings.TrimSpace(string(loose)), true
		}
	}
	sha, err := git(dir, nil, "rev-parse", "--verify", "-q", ref)
	return sha, err == nil
}

// serveGit answers requests of git's smart HTTP protocol. Anyone may fetch, but a push needs the token of a user with
// write access. The server starts upload-pack and receive-pack itself, because git http-backend would start another
// process for each request.
func (s *gate) serveGit(w http.ResponseWriter, r *http.Request) {
	name, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), ".git/")
	s.mu.Lock()
	repo, u := s.repos[strings.ToLower(name)], s.apps.caller(r).user
	allowed := repo != nil && u != nil && repo.mayWrite(u)
	s.mu.Unlock()
	if s.gitFault(w, r) {
		return
	}
	service := strings.TrimPrefix(path, "git-")
	if path == "info/refs" {
		service = strings.TrimPrefix(r.URL.Query().Get("service"), "git-")
	}
	push := service == "receive-pack"
	switch {
	case repo == nil, !push && service != "upload-pack":
		http.NotFound(w, r)
		return
	case push && u == nil:
		w.Header().Set("WWW-Authenticate", `Basic realm="fake GitHub"`)
		http.Error(w, "a push requires a token", http.StatusUnauthorized)
		return
	case push && !allowed:
		http.Error(w, "no write access", http.StatusForbidden)
		return
	}
	w.Header().Set("Cache-Control", "no-cache")
	if path == "info/refs" {
		s.advertise(w, r, name, service)
		return
	}
	if push {
		defer func() {
			s.mu.Lock()
			s.followHeads(repo, u)
			s.unlock()
		}()
	}
	s.runPack(w, r, name, service)
}

// advertise sends the refs or, in version 2 of the protocol, the capabilities.
func (s *gate) advertise(w http.ResponseWriter, r *http.Request, name, service string) {
	w.Header().Set("Content-Type", "application/x-git-"+service+"-advertisement")
	if !strings.Contains(r.Header.Get("Git-Protocol"), "version=2") || service == "receive-pack" {
		line := "# service=git-" + service + "\n"
		_, _ = fmt.Fprintf(w, "%04x%s0000", len(line)+4, line)
	}
	s.serve(r, name, nil, w, service, "--advertise-refs", ".")
}

func (s *gate) runPack(w http.ResponseWriter, r *http.Request, name, service string) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = unzipped
	}
	w.Header().Set("Content-Type", "application/x-git-"+service+"-result")
	s.serve(r, name, io.LimitReader(body, packLimit), w, service, "--stateless-rpc", ".")
}

// packLimit is the maximum size of a request, in bytes.
const packLimit = 256 << 20

// serve runs a git program in the repository. If the program cannot start or is killed, serve cuts the connection, so
// that the client notices.
func (s *gate) serve(r *http.Request, name string, in io.Reader, out io.Writer, args ...string) {
	cmd := exec.CommandContext(r.Context(), "git", args...) // the client sets the pace, so there is no other time limit
	cmd.Dir, cmd.Stdin, cmd.Stdout = s.bare(name), in, out
	cmd.Env = append(append(os.Environ(), quiet...), "GIT_PROTOCOL="+r.Header.Get("Git-Protocol"))
	cmd.WaitDelay = gitTimeout // a slow client may still be reading the output after git has ended
	if err := cmd.Run(); err != nil && !exited(err) {
		panic(http.ErrAbortHandler)
	}
}

// exited reports whether the program exited without being killed by a signal. In that case, it has already sent its
// error to the client.
func exited(err error) bool {
	failed, ok := errors.AsType[*exec.ExitError](err)
	return ok && failed.Exited()
}

// gitFault answers a request to which a fault applies. It sends the body as plain text, the only type that git
// displays.
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
