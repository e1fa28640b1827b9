package githubtest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// Open returns a server that continues with the state in Options.StateFile. The server writes users, repositories,
// issues, comments, reactions, pull requests, checks, reviews, events and used budgets to the file before it answers a
// change. The file excludes the request log and injected faults.
func Open(o Options) (*Server, error) {
	s := New(o)
	s.file = o.StateFile
	if s.file == "" {
		return s, nil
	}
	data, err := os.ReadFile(s.file)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("githubtest: state: %w", err)
	}
	if err := s.load(data); err != nil {
		return nil, fmt.Errorf("githubtest: read state file %s (remove it to start with empty repositories): %w",
			s.file, err)
	}
	return s, nil
}

// stateVersion is the version of the file's format. Files of other versions cannot be read.
const stateVersion = 1

// saved is the state file.
type saved struct {
	Version int                `json:"version"`
	LastID  int64              `json:"last_id"`
	Users   []savedUser        `json:"users"`
	Repos   []*repo            `json:"repos"`
	Events  []Event            `json:"events"`
	Late    int                `json:"late"`
	Budgets map[string]*budget `json:"budgets"`
}

type savedUser struct {
	ID    int64  `json:"id"`
	Login string `json:"login"`
	Token string `json:"token,omitempty"`
}

// unlock writes the state file before it releases the lock, so every answered change is in the file. Then it runs the
// check rules that are due. s.mu is held.
func (s *store) unlock() {
	var err error
	if s.file != "" {
		err = s.save()
	}
	due := len(s.due) > 0 && len(s.rules) > 0
	s.moved = false
	s.mu.Unlock()
	if err != nil {
		s.opts.StateLost(err)
	}
	if due {
		s.runRules()
	}
}

// release releases the lock after a read. It writes the file only if branches have moved. s.mu is held.
func (s *store) release() {
	if s.moved {
		s.unlock()
		return
	}
	s.mu.Unlock()
}

// save replaces the file in one step, so that a killed process leaves either the old or the new file. It does not call
// fsync, so a power failure can lose the file.
func (s *store) save() error {
	var out bytes.Buffer
	if err := json.NewEncoder(&out).Encode(s.toSaved()); err != nil {
		return fmt.Errorf("githubtest: state: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(s.file), 0o755); err != nil {
		return fmt.Errorf("githubtest: state: %w", err)
	}
	fresh := s.file + ".new"
	if err := os.WriteFile(fresh, out.Bytes(), 0o600); err != nil { // it holds tokens
		return fmt.Errorf("githubtest: state: %w", err)
	}
	if err := os.Rename(fresh, s.file); err != nil {
		return fmt.Errorf("githubtest: state: %w", err)
	}
	return nil
}

func (s *store) toSaved() saved {
	v := saved{Version: stateVersion, LastID: s.lastID, Events: s.events, Late: s.late, Budgets: s.budgets}
	for _, login := range slices.Sorted(maps.Keys(s.users)) {
		u := s.users[login]
		v.Users = append(v.Users, savedUser{u.id, u.login, u.token})
	}
	for _, name := range slices.Sorted(maps.Keys(s.repos)) {
		r := *s.repos[name]
		if r.MovedTo != "" {
			r.Issues, r.Checks, r.Statuses = nil, nil, nil // the repository has these under its new name
		}
		v.Repos = append(v.Repos, &r)
	}
	return v
}

func (s *store) load(data []byte) error {
	var v saved
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	if v.Version != stateVersion {
		return fmt.Errorf("got version %d, want %d", v.Version, stateVersion)
	}
	s.lastID, s.events, s.late = v.LastID, v.Events, v.Late
	for _, u := range v.Users {
		s.users[u.Login] = newUser(u.ID, u.Login, u.Token)
	}
	maps.Copy(s.budgets, v.Budgets)
	s.known(reflect.ValueOf(v.Repos))
	for _, r := range v.Repos {
		if r.Collaborators == nil {
			r.Collaborators = map[string]string{}
		}
		if r.Branches == nil {
			r.Branches = map[string]string{}
			r.makeBranches(mainBranch)
		}
		for _, i := range r.Issues {
			if i.Head != "" && i.Pull == nil {
				i.Pull = s.earlierPull(r, i)
			}
		}
		s.repos[strings.ToLower(r.fullName())] = r
	}
	return nil
}

// earlierPull restores a pull request from a state file written by an older version, which recorded only the branches.
func (s *store) earlierPull(r *repo, i *issue) *pullRequest {
	if s.opts.DataDir == "" {
		r.makeBranches(i.Head, i.Base)
	}
	head, _ := s.tip(r, i.Head)
	base, _ := s.tip(r, i.Base)
	return &pullRequest{HeadSHA: cmp.Or(head, madeUp(i.Head)), BaseSHA: cmp.Or(base, madeUp(i.Base))}
}

// known replaces the users in v, which have only a login, with the known users of the same login.
func (s *store) known(v reflect.Value) {
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			s.known(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				s.known(v.Field(i))
			}
		}
	case reflect.Pointer:
		if u, ok := v.Interface().(*user); ok && u != nil {
			v.Set(reflect.ValueOf(s.user(u.login)))
		} else if !v.IsNil() {
			s.known(v.Elem())
		}
	}
}
