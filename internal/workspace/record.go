package workspace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const recordVersion = 1

// task is the folder of one claim.
type task struct {
	nonce string
	dir   string
	lock  *fileLock
}

func (w *Workspaces) task(nonce string, lock *fileLock) task {
	return task{nonce: nonce, dir: w.taskDir(nonce), lock: lock}
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
	// Pushed are the commits that we may have pushed, by branch, noted before the push: how we tell our branch from
	// somebody else's of the same name.
	Pushed map[string][]string `json:"pushed,omitempty"`
	// Merge is a merge that has begun to reach the work tree; settle finishes it.
	Merge *merge `json:"merge,omitempty"`
}

// load returns ErrNoCheckout, wrapped, when there is no record.
func (t task) load(op string) (record, error) {
	data, err := os.ReadFile(t.file())
	if errors.Is(err, fs.ErrNotExist) {
		return record{}, noCheckout(op, t.nonce)
	}
	if err != nil {
		return record{}, system(op, err)
	}
	var r record
	err = json.Unmarshal(data, &r)
	if err == nil && (r.Version != recordVersion || r.Nonce != t.nonce || !shaForm.MatchString(r.BaseSHA)) {
		err = fmt.Errorf("version %d, nonce %.20q, base %.40q", r.Version, r.Nonce, r.BaseSHA)
	}
	if err != nil {
		return record{}, refuse(op, "remove "+t.dir+" and let the issue start fresh", "%s is damaged: %v", t.file(), err)
	}
	return r, nil
}

// save replaces the record as a whole: a crash leaves the old one or the new one.
func (t task) save(r record) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(t.dir, "task.json-")
	if err != nil {
		return err
	}
	_, err = f.Write(append(data, '\n'))
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), t.file())
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
