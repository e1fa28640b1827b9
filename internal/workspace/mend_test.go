package workspace

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// emptyObjects truncates all objects of a git directory.
func emptyObjects(t *testing.T, dir string) {
	n := 0
	_ = filepath.WalkDir(filepath.Join(dir, "objects"), func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && !strings.Contains(path, "/info/") {
			n++
			_ = os.Chmod(path, 0o600)
			err = os.Truncate(path, 0)
		}
		return err
	})
	if n == 0 {
		t.Fatal("nothing to damage in " + dir)
	}
}

// damages are the cases of TestDamagedRepositoriesAreMadeAgain.
var damages = map[string]func(t *testing.T, w *Workspaces){
	"mirror: HEAD empty":    func(t *testing.T, w *Workspaces) { put(t, w.mirrors.path(repo), "HEAD", "") },
	"mirror: objects empty": func(t *testing.T, w *Workspaces) { emptyObjects(t, w.mirrors.path(repo)) },
	"mirror: objects gone": func(_ *testing.T,
		w *Workspaces,
	) {
		_ = os.RemoveAll(filepath.Join(w.mirrors.path(repo), "objects"))
	},
	"mirror: refs gone": func(_ *testing.T,
		w *Workspaces,
	) {
		_ = os.RemoveAll(filepath.Join(w.mirrors.path(repo), "refs"))
	},
	"mirror: all gone": func(_ *testing.T, w *Workspaces) { _ = os.RemoveAll(w.mirrors.path(repo)) },
	"mirror: config garbage": func(t *testing.T, w *Workspaces) {
		put(t, w.mirrors.path(repo), "config",
			"\x00\x00\x00")
	},
	"task: HEAD empty": func(t *testing.T, w *Workspaces) {
		put(t, w.tasks.at("", nonceA).gitDir,
			"HEAD", "")
	},
	"task: objects empty": func(t *testing.T,
		w *Workspaces,
	) {
		emptyObjects(t, w.tasks.at("", nonceA).gitDir)
	},
	"task: alternates empty": func(t *testing.T, w *Workspaces) {
		put(t, w.tasks.at("", nonceA).gitDir, "objects/info/alternates", "")
	},
	"task: all gone": func(_ *testing.T,
		w *Workspaces,
	) {
		_ = os.RemoveAll(w.tasks.at("", nonceA).gitDir)
	},
	"both: objects empty": func(t *testing.T, w *Workspaces) {
		emptyObjects(t, w.mirrors.path(repo))
		emptyObjects(t, w.tasks.at("", nonceA).gitDir)
	},
}

// TestDamagedRepositoriesAreMadeAgain: if any file of git is empty or missing, the next operation works and the work
// tree is delivered.
func TestDamagedRepositoriesAreMadeAgain(t *testing.T) {
	t.Parallel()
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOrigin(t, map[string]string{"a.txt": "a\n", "b/c.txt": "c\n", ".gitignore": "*.o\n"})
			dir := t.TempDir()
			w := open(t, Options{Dir: dir})
			c := checkout(t, w, o, nonceA)
			put(t, c.Path, "work.txt", "work\n")
			if _, err := w.Patch(t.Context(), nonceA); err != nil { // create objects that the mirror lacks
				t.Fatal(err)
			}
			damage(t, w)
			w = open(t, Options{Dir: dir}) // the next director
			if again := checkout(t, w, o, nonceA); !again.Reused {
				t.Errorf("%+v", again)
			}
			if _, _, err := w.Tracked(t.Context(), nonceA); err != nil {
				t.Error(err)
			}
			if patch, err := w.Patch(t.Context(), nonceA); err != nil || !strings.Contains(patch, "+work") ||
				strings.Contains(patch, "a.txt") {
				t.Errorf("%q, %v", patch, err)
			}
			if d := deliver(t, w, o, nonceA); o.files(t, d.Branch) != ".gitignore\na.txt\nb/c.txt\nwork.txt" {
				t.Errorf("delivered %+v: %q", d, o.files(t, d.Branch))
			}
			checkout(t, w, o, nonceB)
		})
	}
}

// TestLostWorkBeginsAnew: the first operation reports the loss, and the next checkout is new.
func TestLostWorkBeginsAnew(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(t *testing.T, w *Workspaces){
		"no files": func(_ *testing.T,
			w *Workspaces,
		) {
			_ = os.RemoveAll(filepath.Join(w.tasks.at("", nonceA).dir, "checkout"))
		},
		"base rewritten": func(t *testing.T, w *Workspaces) {
			_ = os.RemoveAll(w.tasks.at("", nonceA).gitDir)
			put(t, w.tasks.at("", nonceA).dir, "task.json",
				strings.ReplaceAll(read(t, filepath.Join(w.tasks.at("", nonceA).dir, "task.json")), baseOf(t, w),
					strings.Repeat("1", 40)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOrigin(t, map[string]string{"a.txt": "a\n"})
			w := open(t, Options{})
			put(t, checkout(t, w, o, nonceA).Path, "work.txt", "work\n")
			damage(t, w)
			_, err := w.Deliver(t.Context(), request(o, nonceA))
			if !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "the work so far is lost") {
				t.Fatal(err)
			}
			if c := checkout(t, w, o, nonceA); c.Reused {
				t.Errorf("%+v", c)
			}
			if d, err := w.Deliver(t.Context(), request(o, nonceA)); !errors.Is(err, ErrNothingToDeliver) {
				t.Errorf("%+v, %v", d, err)
			}
		})
	}
}

// loaded returns a task with its record.
func loaded(t testing.TB, w *Workspaces, nonce string) *task {
	t.Helper()
	task := w.tasks.at("test", nonce)
	if err := task.load(); err != nil {
		t.Fatal(err)
	}
	return task
}

func baseOf(t *testing.T, w *Workspaces) string {
	t.Helper()
	return loaded(t, w, nonceA).rec.BaseSHA
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestDamageIsNotTheNetworks: a damaged local object is recognised even if the server's messages come last. A
// server's messages about its own repository do not mean local damage.
func TestDamageIsNotTheNetworks(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]error{
		"error: object file ./objects/8a/1c is empty\nfatal: loose object 8a1c is corrupt\nfatal: the remote end " +
			"hung up unexpectedly": ErrDamaged,
		"error: inflate: data stream error (incorrect header check)\nerror: RPC failed; curl 55\nfatal: the remote " +
			"end hung up unexpectedly": ErrDamaged,
		"fatal: not a git repository: " +
			"'/data/mirrors/acme/widgets.git'": ErrDamaged,
		"remote: fatal: bad object 8a1c\nfatal: the remote end hung up " +
			"unexpectedly": nil,
		"fatal: '/srv/x.git' does not appear to be a " +
			"git repository": ErrNotThere,
		"fatal: the remote end hung up " +
			"unexpectedly": nil,
		"error: failed to write new configuration file /srv/m.git/config.lock\nfatal: could not set " +
			"'core.repositoryformatversion' to '0'": nil,
		"fatal: sha1 file '/data/tasks/k3/index.lock' write error. Out " +
			"of diskspace": ErrDiskFull,
		"error: object file is empty: no space " +
			"left on device": ErrDiskFull,
		"error: unable to open loose object 8a1c: " +
			"Input/output error": ErrDiskFails,
		"remote: fatal: write error: No space left on device\nfatal: the remote end hung up " +
			"unexpectedly": nil,
	} {
		e := gitFailed("push", said, true, errors.New("exit status 128"))
		for _, known := range []error{ErrDamaged, ErrNotThere, ErrDiskFull, ErrDiskFails} {
			if errors.Is(e, known) != errors.Is(want, known) {
				t.Errorf("%q: %v, want %v", said, e.Err, want)
			}
		}
		if transient := e.Kind == Transient; transient != (want == nil || errors.Is(want, ErrDiskFull) ||
			errors.Is(want, ErrDiskFails)) {
			t.Errorf("%q: %s", said, e.Kind)
		}
	}
}

// TestServerThatIsAwayLosesNothing repairs a task while its server fails. The work must not count as lost, and the
// repair must succeed once the server works again.
func TestServerThatIsAwayLosesNothing(t *testing.T) {
	o := newOrigin(t, map[string]string{"a.txt": "a\n"})
	var status atomic.Int32
	url := httpOrigin(t, o, func(rw http.ResponseWriter, _ *http.Request) bool {
		code := int(status.Load())
		if code != 0 {
			http.Error(rw, "away", code)
		}
		return code != 0
	})
	w := open(t, Options{})
	c, err := w.Checkout(t.Context(), Request{Nonce: nonceA, Repo: repo, RemoteURL: url, BaseBranch: "main"})
	if err != nil {
		t.Fatal(err)
	}
	put(t, c.Path, "work.txt", "work\n")
	tip := strings.TrimSpace(sh(t, o.bare, "rev-parse", "main"))
	task := loaded(t, w, nonceA)
	task.rec.tip("theirs", tip)
	if err := task.save(); err != nil {
		t.Fatal(err)
	}
	for _, damaged := range []string{w.tasks.at("", nonceA).gitDir, w.mirrors.path(repo)} {
		if err := os.RemoveAll(damaged); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.mirrors.at("test", repo, nil).init(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	// Another task caused a refetch before the base branch was rewritten.
	w.mirrors.renewed.Store(repo, time.Now())
	q := request(o, nonceA)
	q.RemoteURL = url
	for _, code := range []int{500, 502, 503, 504, 429, 401, 403, 404} {
		status.Store(int32(code))
		if _, err := w.Deliver(t.Context(), q); err == nil || errors.Is(err, ErrLost) || errors.Is(err, ErrNoCheckout) {
			t.Errorf("%d: %v", code, err)
		}
	}
	status.Store(0)
	d, err := w.Deliver(t.Context(), q)
	if err != nil || o.files(t, d.Branch) != "a.txt\nwork.txt" {
		t.Errorf("%+v, %v", d, err)
	}
	if rec := loaded(t, w, nonceA).rec; rec.Tips["theirs"] != tip {
		t.Errorf("%+v", rec)
	}
}
