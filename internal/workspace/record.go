package workspace

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"retake/internal/checkpoint"
	"retake/internal/safefile"
)

const recordVersion = 1

// task is the folder of one claim, in one operation.
type task struct {
	op    string // for errors
	nonce string
	dir   string
	lock  *fileLock
}

func (w *Workspaces) task(op, nonce string, lock *fileLock) task {
	return task{op: op, nonce: nonce, dir: w.taskDir(nonce), lock: lock}
}

// call runs git on the task's objects and refs, without any work tree.
func (t task) call(args ...string) call {
	return call{op: t.op, dir: t.dir, gitDir: t.gitDir(), lock: t.lock, args: args}
}

func (w *Workspaces) taskDir(nonce string) string { return filepath.Join(w.dir, "tasks", nonce) }

func (t task) checkout() string { return filepath.Join(t.dir, "checkout") }
func (t task) gitDir() string   { return filepath.Join(t.dir, "git") }
func (t task) stage() string    { return filepath.Join(t.dir, "stage") }
func (t task) index() string    { return filepath.Join(t.dir, "index") }
func (t task) file() string     { return filepath.Join(t.dir, "task.json") }

// record is what task.json holds: what must be known about a checkout without looking into it.
type record struct {
	Version    int    `json:"version"`
	Nonce      string `json:"nonce"`
	Repo       string `json:"repo"`
	BaseBranch string `json:"base_branch"`
	BaseSHA    string `json:"base_sha"`
	// Remote is where the repository is: what is damaged is fetched from there again.
	Remote string `json:"remote,omitempty"`
	// Task is the key, Attempt the last attempt that the checkout was made ready for. Older records
	// have neither.
	Task    string `json:"task,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	// Pushed are the commits that we may have pushed, by branch, noted before the push: how we tell our branch from
	// somebody else's of the same name.
	Pushed map[string][]string `json:"pushed,omitempty"`
	// Tips is, by branch, the commit there that the work tree holds all of: what we pushed last, or what Join merged.
	Tips map[string]string `json:"tips,omitempty"`
	// Known is the tree that the last merge gave, once people's commits were in one: with the base it says
	// which ignored files are tracked all the same. Empty: the base alone does.
	Known string `json:"known,omitempty"`
	// Conflicts are the files in which merges left something to decide.
	Conflicts []leftover `json:"conflicts,omitempty"`
	// Fresh: the work tree was thrown away, and the next checkout makes another.
	Fresh bool `json:"fresh,omitempty"`
	// Validation is what the last attempt was given that only validated.
	Validation *validation `json:"validation,omitempty"`
	// Manifest is what the work tree holds, as a checkout that travels: what was published of it, or received.
	// It is empty if the checkout does not travel.
	Manifest *checkpoint.Digest `json:"manifest,omitempty"`
	// Changed: since then the work tree was changed here, by a merge, or was made anew.
	Changed bool `json:"changed,omitempty"`
	// Remade counts how often the checkout was made again from what was sent, each time by a director with
	// storage of its own. Of two records the one with more is the newer.
	Remade int `json:"remade,omitempty"`
	// Merge is a merge that has begun to reach the work tree; settle finishes it.
	Merge *merge `json:"merge,omitempty"`
}

// known is what says which files are tracked.
func (r *record) known() string { return cmp.Or(r.Known, r.BaseSHA) }

// tip notes that the work tree holds all of a commit of a branch.
func (r *record) tip(branch, sha string) {
	if r.Tips == nil {
		r.Tips = map[string]string{}
	}
	r.Tips[branch] = sha
}

// load returns ErrNoCheckout, wrapped, when there is no record, or the checkout was thrown away: then the record, too.
func (t task) load() (record, error) {
	data, err := os.ReadFile(t.file())
	if errors.Is(err, fs.ErrNotExist) {
		return record{}, noCheckout(t.op, t.nonce)
	}
	if err != nil {
		return record{}, system(t.op, err)
	}
	var r record
	err = json.Unmarshal(data, &r)
	if err == nil && (r.Version != recordVersion || r.Nonce != t.nonce || !shaForm.MatchString(r.BaseSHA)) {
		err = fmt.Errorf("version %d, nonce %.20q, base %.40q", r.Version, r.Nonce, r.BaseSHA)
	}
	if err != nil {
		return record{}, lost(t.op, fmt.Errorf("%s is damaged: %w", t.file(), err))
	}
	if r.Fresh {
		return r, noCheckout(t.op, t.nonce)
	}
	return r, nil
}

// save replaces the record as a whole: a crash leaves the old one or the new one.
func (t task) save(r record) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return safefile.Write(t.file(), 0o600, append(data, '\n'))
}
