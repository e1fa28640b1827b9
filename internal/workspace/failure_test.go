package workspace

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

const token = "ghp_notARealToken0123456789"

// httpOrigin serves a remote over HTTP with git's own server. answer may handle a request itself, and then returns
// true.
func httpOrigin(t *testing.T, o origin, answer func(http.ResponseWriter, *http.Request) bool) string {
	t.Helper()
	exe, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	backend := filepath.Join(strings.TrimSpace(string(exe)), "git-http-backend")
	if _, err := os.Stat(backend); err != nil {
		t.Skip("git http-backend: " + err.Error())
	}
	sh(t, o.bare, "config", "http.receivepack", "true")
	handler := &cgi.Handler{Path: backend, Env: []string{
		"GIT_PROJECT_ROOT=" + filepath.Dir(o.bare),
		"GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1",
	}, Stderr: &bytes.Buffer{}}
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		if !answer(rw, req) {
			handler.ServeHTTP(rw, req)
		}
	}))
	t.Cleanup(srv.Close)
	return srv.URL + "/remote.git"
}

func needBasic(want string) func(http.ResponseWriter, *http.Request) bool {
	return func(rw http.ResponseWriter, req *http.Request) bool {
		if _, got, _ := req.BasicAuth(); got == want {
			return false
		}
		rw.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		rw.WriteHeader(http.StatusUnauthorized)
		return true
	}
}

// TestCredentialsAreNotSentAfterARedirect checks that git does not send credentials to the target of a redirect, even
// for a renamed repository. A person must configure the new address.
func TestCredentialsAreNotSentAfterARedirect(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	var leaked atomic.Bool
	other := httpOrigin(t, o, func(_ http.ResponseWriter, req *http.Request) bool {
		if req.Header.Get("Authorization") != "" {
			leaked.Store(true)
		}
		return false
	})
	url := httpOrigin(t, o, func(rw http.ResponseWriter, req *http.Request) bool {
		http.Redirect(rw, req, strings.TrimSuffix(other, "/remote.git")+req.URL.RequestURI(),
			http.StatusMovedPermanently)
		return true
	})
	w := open(t, Options{Auth: func(context.Context) (string, string, error) { return "x-access-token", token, nil }})
	_, err := w.Checkout(t.Context(), Request{Nonce: nonceB, Repo: repo, RemoteURL: url, BaseBranch: "main"})
	wantKind(t, err, Permanent, "renamed or moved")
	if leaked.Load() {
		t.Error("the credentials went to another server")
	}
}

func TestCredentialsOverHTTP(t *testing.T) {
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	url := httpOrigin(t, o, needBasic(token))
	argv := recordingGit(t)
	core, logs := observer.New(zap.DebugLevel)
	dir := t.TempDir()
	w := open(t, Options{Dir: dir, Log: zap.New(core), Auth: func(context.Context) (string, string,
		error,
	) {
		return "x-access-token", token, nil
	}})
	c, err := w.Checkout(t.Context(), Request{Nonce: nonceB, Repo: repo, RemoteURL: url, BaseBranch: "main"})
	if err != nil {
		t.Fatal(err)
	}
	put(t, c.Path, "b.txt", "x")
	q := request(o, nonceB)
	q.RemoteURL = url
	if _, err := w.Deliver(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	basic := base64.StdEncoding.EncodeToString([]byte("x-access-token:" + token))
	said, err := os.ReadFile(argv)
	if err != nil || !bytes.Contains(said, []byte("push")) {
		t.Fatalf("arguments not seen: %v", err)
	}
	for _, secret := range []string{token, basic} {
		if bytes.Contains(said, []byte(secret)) {
			t.Error("a command line contained the credentials")
		}
		if out, err := exec.Command("grep", "-rlF", secret, dir).Output(); err == nil {
			t.Errorf("the credentials are in %s", out)
		}
		for _, entry := range logs.All() {
			if strings.Contains(entry.Message, secret) {
				t.Error("the credentials are in the log")
			}
		}
	}
}

func TestFailuresOverHTTP(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	var status atomic.Int32
	status.Store(http.StatusOK)
	url := httpOrigin(t, o, func(rw http.ResponseWriter, req *http.Request) bool {
		code := int(status.Load())
		if code == http.StatusOK {
			return false
		}
		// Our errors must not contain a credential that the server echoes.
		http.Error(rw, "you sent "+req.Header.Get("Authorization")+" "+token, code)
		return true
	})
	for code, kind := range map[int]Kind{
		401: Auth, 403: Auth, 404: Permanent, 429: Limited, 500: Transient,
		502: Transient, 503: Transient,
	} {
		status.Store(int32(code))
		w := open(t, Options{Auth: func(context.Context) (string, string, error) {
			return "x-access-token", token,
				nil
		}})
		_, err := w.Checkout(t.Context(), Request{Nonce: nonceB, Repo: repo, RemoteURL: url, BaseBranch: "main"})
		wantKind(t, err, kind)
		if strings.Contains(err.Error(), token) ||
			strings.Contains(err.Error(), base64.StdEncoding.EncodeToString([]byte("x-access-token:"+token))) {
			t.Errorf("%d: the error holds the credentials: %v", code, err)
		}
	}
	git := gitFailed("push", "remote: You have exceeded a secondary rate limit. Please wait a few minutes before you "+
		"try again.\n"+
		"fatal: unable to access 'https://github.com/acme/widgets.git/': The requested URL returned error: 403",
		true, errors.New("exit status 128"))
	wantKind(t, git, Limited)
	// A push must fail in the same way.
	status.Store(http.StatusOK)
	w := open(t, Options{})
	c, err := w.Checkout(t.Context(), Request{Nonce: nonceB, Repo: repo, RemoteURL: url, BaseBranch: "main"})
	if err != nil {
		t.Fatal(err)
	}
	put(t, c.Path, "b.txt", "x")
	status.Store(http.StatusServiceUnavailable)
	q := request(o, nonceB)
	q.RemoteURL = url
	_, err = w.Deliver(t.Context(), q)
	wantKind(t, err, Transient)
}

func TestAuthThatFails(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	url := httpOrigin(t, o, needBasic(token))
	for name, auth := range map[string]func(context.Context) (string, string, error){
		"none":  nil,
		"wrong": func(context.Context) (string, string, error) { return "x", "wrong", nil },
		"error": func(context.Context) (string, string, error) { return "", "", errors.New("GITHUB_TOKEN is not set") },
	} {
		w := open(t, Options{Auth: auth})
		_, err := w.Checkout(t.Context(), Request{Nonce: nonceB, Repo: repo, RemoteURL: url, BaseBranch: "main"})
		t.Log(name, err)
		wantKind(t, err, Auth, "token")
	}
}

func TestRemotesThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	w := open(t, Options{})
	for _, c := range []struct {
		url, branch string
		kind        Kind
		text        string
	}{
		{o.bare, "no-such-branch", Permanent, "github.base_branch"},
		{filepath.Join(t.TempDir(), "missing.git"), "main", Permanent, "github.repositories"},
		{"http://127.0.0.1:1/x.git", "main", Transient, "127.0.0.1"},
		{"http://no-such-host.invalid/x.git", "main", Transient, "no-such-host"},
	} {
		_, err := w.Checkout(t.Context(), Request{Nonce: nonceB, Repo: repo, RemoteURL: c.url, BaseBranch: c.branch})
		wantKind(t, err, c.kind, c.text)
	}
}

func TestRefusedPushes(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	w := open(t, Options{})
	put(t, checkout(t, w, o, nonceB).Path, "b.txt", "x")
	hook := put(t, o.bare, "hooks/pre-receive", "#!/bin/sh\necho 'error: GH006: Protected branch' >&2\nexit 1\n")
	if err := os.Chmod(hook, 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := w.Deliver(t.Context(), request(o, nonceB))
	wantKind(t, err, Permanent, "GH006", "pre-receive hook declined")
	if err := os.Remove(hook); err != nil {
		t.Fatal(err)
	}
	// A branch has the name of the directory that our branch needs.
	sh(t, o.bare, "branch", "retake", "main")
	_, err = w.Deliver(t.Context(), request(o, nonceB))
	wantKind(t, err, Conflict, "retake")
	sh(t, o.bare, "branch", "-D", "retake")
	deliver(t, w, o, nonceB)
}

// TestBranchTakenBetweenLookAndPush: the lease fails, and a second listing finds another name.
func TestBranchTakenBetweenLookAndPush(t *testing.T) {
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	real, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	fakeGit(t, `case "$1" in push) GIT_DIR=`+o.bare+" "+real+" branch "+branch+` main 2>/dev/null;; esac; exec `+real+
		` "$@"`)
	w := open(t, Options{})
	put(t, checkout(t, w, o, nonceB).Path, "b.txt", "x")
	if d := deliver(t, w, o, nonceB); d.Branch != branch+"-"+nonceB {
		t.Errorf("%+v", d)
	}
	if sh(t, o.bare, "rev-parse", branch) != sh(t, o.bare, "rev-parse", "main") {
		t.Error("the push overwrote the other branch")
	}
}

func TestDirectoryThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	requireGit(t)
	file := put(t, t.TempDir(), "file", "x")
	_, err := Open(Options{Dir: filepath.Join(file, "data")})
	wantKind(t, err, Permanent, "not a directory")
	_, err = Open(Options{})
	wantKind(t, err, Permanent, "director.data_dir")
	if os.Geteuid() == 0 {
		return // root may write everywhere
	}
	closed := t.TempDir()
	if err := os.Chmod(closed, 0o500); err != nil {
		t.Fatal(err)
	}
	_, err = Open(Options{Dir: filepath.Join(closed, "data")})
	wantKind(t, err, Permanent, "permission denied", "director.data_dir")
}

func TestSystemErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	err := system("x", &os.PathError{Op: "write", Path: "/d", Err: syscall.ENOSPC})
	wantKind(t, err, Transient, "make room")
	if !errors.Is(err, ErrDiskFull) {
		t.Error("not ErrDiskFull")
	}
	git := gitFailed("x", "error: file write error: No space left on device", false, errors.New("exit 128"))
	if !errors.Is(git, ErrDiskFull) {
		t.Error("git's message is not ErrDiskFull")
	}
	wantKind(t, system("x", &os.PathError{Op: "mkdir", Path: "/d", Err: syscall.EACCES}), Permanent,
		"director.data_dir")
	// another process is still writing there
	wantKind(t, system("x", &os.PathError{Op: "remove", Path: "/d", Err: syscall.ENOTEMPTY}), Transient,
		"stop the process")
	if system("x", nil) != nil {
		t.Error("nil became an error")
	}
}
