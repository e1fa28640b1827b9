package githubtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Open makes a stand-in that goes on where the last one with the same Options.StateFile stopped, or ended
// without stopping: users, repositories, issues, comments, reactions, pull requests, checks, reviews, events
// and spent budgets are written before a change is answered. The request log and injected faults end with the
// process.
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
		return nil, fmt.Errorf("githubtest: state file %s cannot be read (remove it to start with empty "+
			"repositories): %w", s.file, err)
	}
	return s, nil
}

// stateVersion is of the form of the file; there is no reader for another one.
const stateVersion = 1

// saved is the state file.
type saved struct {
	Version int                    `json:"version"`
	LastID  int64                  `json:"last_id"`
	Users   []savedUser            `json:"users"`
	Repos   []savedRepo            `json:"repos"`
	Events  []Event                `json:"events"`
	Late    int                    `json:"late"`
	Budgets map[string]savedBudget `json:"budgets"`
}

type savedUser struct {
	ID    int64  `json:"id"`
	Login string `json:"login"`
	Token string `json:"token,omitempty"`
}

type savedRepo struct {
	ID            int64             `json:"id"`
	Owner         string            `json:"owner"`
	Name          string            `json:"name"`
	Collaborators map[string]string `json:"collaborators"`
	Labels        []savedLabel      `json:"labels"`
	Issues        []savedIssue      `json:"issues"`
	Created       time.Time         `json:"created"`
	MovedTo       string            `json:"moved_to,omitempty"`
	Checks        []savedCheck      `json:"checks,omitempty"`
	Statuses      []savedStatus     `json:"statuses,omitempty"`
	Branches      map[string]string `json:"branches,omitempty"`
	Protection    Protection        `json:"protection,omitzero"`
}

type savedLabel struct {
	ID          int64  `json:"id"`
	Name        string `json:"name"`
	Color       string `json:"color"`
	Description string `json:"description,omitempty"`
}

type savedIssue struct {
	ID       int64          `json:"id"`
	Number   int            `json:"number"`
	Title    string         `json:"title"`
	Body     string         `json:"body"`
	Author   string         `json:"author"`
	Closed   bool           `json:"closed,omitempty"`
	Created  time.Time      `json:"created"`
	Updated  time.Time      `json:"updated"`
	ClosedAt time.Time      `json:"closed_at,omitzero"`
	Labels   []string       `json:"labels"`
	Edits    []savedEdit    `json:"edits,omitempty"`
	Comments []savedComment `json:"comments"`
	Head     string         `json:"head,omitempty"`
	Base     string         `json:"base,omitempty"`
	Pull     *savedPull     `json:"pull,omitempty"`
	ClosedBy string         `json:"closed_by,omitempty"`
	MovedTo  string         `json:"moved_to,omitempty"`
	Deleted  bool           `json:"deleted,omitempty"`
}

type savedComment struct {
	ID        int64           `json:"id"`
	Author    string          `json:"author"`
	Body      string          `json:"body"`
	Created   time.Time       `json:"created"`
	Updated   time.Time       `json:"updated"`
	Reactions []savedReaction `json:"reactions,omitempty"`
}

type savedReaction struct {
	ID      int64     `json:"id"`
	User    string    `json:"user"`
	Content string    `json:"content"`
	Created time.Time `json:"created"`
}

type savedBudget struct {
	Used   int       `json:"used"`
	Reset  time.Time `json:"reset"`
	Closed time.Time `json:"closed,omitzero"`
}

// unlock ends what may have changed something: it is in the file before anybody hears of it. s.mu is held.
func (s *Server) unlock() {
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

// release ends what has changed nothing, unless it has found that branches have moved. s.mu is held.
func (s *Server) release() {
	if s.moved {
		s.unlock()
		return
	}
	s.mu.Unlock()
}

// save replaces the file in one step, so that a process which is killed leaves the old or the new one. What a
// power failure does is not our concern.
func (s *Server) save() error {
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

func (s *Server) toSaved() saved {
	v := saved{
		Version: stateVersion, LastID: s.lastID, Events: s.events, Late: s.late,
		Budgets: map[string]savedBudget{},
	}
	for _, login := range slices.Sorted(maps.Keys(s.users)) {
		u := s.users[login]
		v.Users = append(v.Users, savedUser{u.id, u.login, u.token})
	}
	for login, b := range s.budgets {
		v.Budgets[login] = savedBudget{b.used, b.reset, b.closed}
	}
	for _, name := range slices.Sorted(maps.Keys(s.repos)) {
		v.Repos = append(v.Repos, s.repos[name].toSaved())
	}
	return v
}

func (r *repo) toSaved() savedRepo {
	v := savedRepo{
		ID: r.id, Owner: r.owner.login, Name: r.name, Collaborators: r.collaborators, Created: r.created,
		MovedTo: r.movedTo,
	}
	for _, l := range r.labels {
		v.Labels = append(v.Labels, savedLabel{l.id, l.name, l.color, l.description})
	}
	if r.movedTo != "" {
		return v // its issues are the new one's
	}
	r.saveChecks(&v)
	for _, i := range r.issues {
		si := savedIssue{
			ID: i.id, Number: i.number, Title: i.title, Body: i.body, Author: i.author.login, Closed: i.closed,
			Created: i.created,
			Updated: i.updated, ClosedAt: i.closedAt, Labels: i.labels, Head: i.head, Base: i.base, MovedTo: i.movedTo,
			Deleted: i.deleted,
			Pull:    i.pull.toSaved(), ClosedBy: i.closedBy.orNone(),
		}
		for _, e := range i.edits {
			si.Edits = append(si.Edits, savedEdit{e.at, e.by.login, e.text, e.deleted})
		}
		for _, c := range i.comments {
			si.Comments = append(si.Comments, c.toSaved())
		}
		v.Issues = append(v.Issues, si)
	}
	return v
}

func (c *comment) toSaved() savedComment {
	v := savedComment{ID: c.id, Author: c.author.login, Body: c.body, Created: c.created, Updated: c.updated}
	for _, x := range c.reactions {
		v.Reactions = append(v.Reactions, savedReaction{x.id, x.user.login, x.content, x.created})
	}
	return v
}

func (s *Server) load(data []byte) error {
	var v saved
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	if v.Version != stateVersion {
		return fmt.Errorf("its version is %d, want %d", v.Version, stateVersion)
	}
	s.lastID, s.events, s.late = v.LastID, v.Events, v.Late
	for _, u := range v.Users {
		s.users[u.Login] = newUser(u.ID, u.Login, u.Token)
	}
	for login, b := range v.Budgets {
		s.budgets[login] = &budget{used: b.Used, reset: b.Reset, closed: b.Closed}
	}
	for _, r := range v.Repos {
		s.repos[strings.ToLower(r.Owner+"/"+r.Name)] = s.fromSaved(r)
	}
	return nil
}

func (s *Server) fromSaved(v savedRepo) *repo {
	r := &repo{
		id: v.ID, owner: s.user(v.Owner), name: v.Name, collaborators: v.Collaborators, created: v.Created,
		movedTo: v.MovedTo,
	}
	if r.collaborators == nil {
		r.collaborators = map[string]string{}
	}
	s.loadChecks(r, v)
	for _, l := range v.Labels {
		r.labels = append(r.labels, &label{l.ID, l.Name, l.Color, l.Description})
	}
	for _, i := range v.Issues {
		is := &issue{
			id: i.ID, number: i.Number, title: i.Title, body: i.Body, author: s.user(i.Author), closed: i.Closed,
			created: i.Created,
			updated: i.Updated, closedAt: i.ClosedAt, labels: i.Labels, head: i.Head, base: i.Base, movedTo: i.MovedTo,
			deleted: i.Deleted,
			pull:    s.pullFromSaved(r, i), closedBy: s.userOrNone(i.ClosedBy),
		}
		for _, e := range i.Edits {
			is.edits = append(is.edits, &edit{e.At, s.user(e.By), e.Text, e.Deleted})
		}
		for _, c := range i.Comments {
			m := &comment{id: c.ID, author: s.user(c.Author), body: c.Body, created: c.Created, updated: c.Updated}
			for _, x := range c.Reactions {
				m.reactions = append(m.reactions, &reaction{x.ID, s.user(x.User), x.Content, x.Created})
			}
			is.comments = append(is.comments, m)
		}
		r.issues = append(r.issues, is)
	}
	return r
}
