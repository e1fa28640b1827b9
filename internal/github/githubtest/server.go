package githubtest

import (
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Options configure a Server. The zero value is valid.
type Options struct {
	Now       func() time.Time // default time.Now
	DataDir   string           // directory of bare repositories; empty disables git
	Person    string           // login that acts on the pages, created on first use; default "octocat"
	RateLimit int              // requests per hour and user; default 5000
	Limits    bool             // enforce GitHub's secondary limits; see limits.go
	Hour      time.Duration    // period of the hourly limits (the others use 1/60 of it); default one hour
	// StateFile keeps the state across restarts; see Open.
	StateFile string
	// StateLost is called if the server cannot write the state file. The default panics.
	StateLost func(error)
}

// Server is a stand-in for GitHub. It is safe for concurrent use.
type Server struct {
	*store
	*apps
	*gate
	site http.Handler
}

// store holds GitHub's data, except Apps. Callers of its methods must hold mu, unless a comment says otherwise.
type store struct {
	opts Options
	file string // state file; empty to keep the state in memory only

	mu      sync.Mutex
	lastID  int64
	users   map[string]*user // by login
	repos   map[string]*repo // by lower-case owner/name
	events  []Event
	late    int                // requests sent during a limit
	budgets map[string]*budget // by caller.budget
	rules   []checkRule
	due     []dueHead // heads that the check rules have not processed
	moved   bool      // a branch has moved since the state file was written
}

// New returns an empty server that keeps all state in memory.
func New(o Options) *Server {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Person == "" {
		o.Person = "octocat"
	}
	if o.RateLimit == 0 {
		o.RateLimit = 5000
	}
	if o.Hour == 0 {
		o.Hour = time.Hour
	}
	if o.StateLost == nil {
		o.StateLost = func(err error) { panic(err) }
	}
	if o.DataDir != "" {
		if dir, err := filepath.Abs(o.DataDir); err == nil {
			o.DataDir = dir // git runs in the repository, where a relative path would be wrong
		}
	}
	st := &store{
		opts: o, lastID: 1000, users: map[string]*user{}, repos: map[string]*repo{}, budgets: map[string]*budget{},
	}
	s := &Server{store: st, apps: &apps{store: st}}
	s.gate = &gate{store: st, apps: s.apps}
	s.api = routes(s.gate)
	s.site = (&site{st, s.gate}).pages()
	return s
}

// APIPath is the root of the REST API.
const APIPath = "/api/v3/"

// ServeHTTP answers requests to the API, to git, to the pages and to /_sim.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasPrefix(r.URL.Path, APIPath), r.URL.Path == GraphQLPath:
		s.serveAPI(w, r)
	case strings.Contains(r.URL.Path, ".git/") && s.opts.DataDir != "":
		s.serveGit(w, r)
	default:
		s.site.ServeHTTP(w, r)
	}
}

var _ http.Handler = (*Server)(nil)

// now returns the time in whole seconds, as GitHub does.
func (s *store) now() time.Time { return s.opts.Now().UTC().Truncate(time.Second) }

// id returns a new id. s.mu is held.
func (s *store) id() int64 {
	s.lastID++
	return s.lastID
}

func itoa[T int | int64](n T) string { return strconv.FormatInt(int64(n), 10) }

func key(r *repo, i *issue) string { return r.fullName() + "#" + itoa(i.Number) }

// AddUser adds a user with a token, or sets the token of an existing user. A login that ends in [bot] is a bot.
func (s *Server) AddUser(login, token string) {
	s.mu.Lock()
	defer s.unlock()
	s.user(login).token = token
}

// user finds or creates a user. s.mu is held.
func (s *store) user(login string) *user {
	u, ok := s.users[login]
	if !ok {
		u = newUser(s.id(), login, "")
		s.users[login] = u
	}
	return u
}

func newUser(id int64, login, token string) *user {
	return &user{id: id, login: login, token: token, bot: strings.HasSuffix(login, "[bot]")}
}

// AddRepo adds the repository "owner/name". With Options.DataDir it also creates a bare repository. Unless seed is "",
// the branch main gets one commit with the contents of the directory seed. collaborators maps logins to read, triage,
// write, maintain or admin. If the repository exists, AddRepo only adds the collaborators.
func (s *Server) AddRepo(fullName, seed string, collaborators map[string]string) error {
	owner, name, ok := strings.Cut(fullName, "/")
	if !ok || owner == "" || name == "" || strings.ContainsAny(name, "/ ") || strings.HasPrefix(name, ".") {
		return fmt.Errorf("githubtest: repository %q: want owner/name", fullName)
	}
	if s.opts.DataDir != "" {
		if err := s.seed(fullName, seed); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.unlock()
	r := s.repos[strings.ToLower(fullName)]
	if r == nil {
		r = &repo{
			ID: s.id(), Owner: s.user(owner), Name: name, Collaborators: map[string]string{}, Created: s.now(),
			Branches: map[string]string{},
		}
		r.makeBranches(mainBranch)
		s.repos[strings.ToLower(fullName)] = r
	}
	maps.Copy(r.Collaborators, collaborators)
	return nil
}

// SetPermission gives a login a permission on a repository: read, triage, write, maintain or admin. An empty permission
// removes it.
func (s *Server) SetPermission(fullName, login, permission string) {
	s.mu.Lock()
	defer s.unlock()
	r := s.repos[strings.ToLower(fullName)]
	if r == nil {
		panic("githubtest: no repository " + fullName)
	}
	s.user(login)
	r.Collaborators[login] = permission
	if permission == "" {
		delete(r.Collaborators, login)
	}
}

// with runs f on an issue. It panics if the key is unknown.
func (s *Server) with(issueKey string, f func(*repo, *issue)) {
	s.mu.Lock()
	defer s.unlock()
	s.on(issueKey, f)
}

// on is like with, for callers that hold s.mu.
func (s *Server) on(issueKey string, f func(*repo, *issue)) {
	name, num, _ := strings.Cut(issueKey, "#")
	n, _ := strconv.Atoi(num)
	r := s.repos[strings.ToLower(name)]
	if r == nil || r.issue(n) == nil {
		panic("githubtest: no issue " + issueKey)
	}
	f(r, r.issue(n))
}

// CreateIssue opens an issue as author and returns its key. The repository must exist.
func (s *Server) CreateIssue(fullName, author, title, body string, labels ...string) string {
	s.mu.Lock()
	defer s.unlock()
	r := s.repos[strings.ToLower(fullName)]
	if r == nil {
		panic("githubtest: no repository " + fullName)
	}
	return key(r, s.newIssue(r, s.user(author), title, body, labels))
}

// DefineLabels creates the given labels that are missing from a repository.
func (s *Server) DefineLabels(fullName string, names ...string) {
	s.mu.Lock()
	defer s.unlock()
	r := s.repos[strings.ToLower(fullName)]
	for _, name := range names {
		if r.label(name) == nil {
			r.Labels = append(r.Labels, &label{ID: s.id(), Name: name, Color: "ededed"})
		}
	}
}

// AddLabel labels an issue as actor.
func (s *Server) AddLabel(issueKey, actor, name string) {
	s.with(issueKey, func(r *repo, i *issue) { s.addLabel(r, i, s.user(actor), name) })
}

// RemoveLabel removes a label as actor.
func (s *Server) RemoveLabel(issueKey, actor, name string) {
	s.with(issueKey, func(r *repo, i *issue) { s.dropLabel(r, i, s.user(actor), name) })
}

// AddComment adds a comment as actor and returns the comment's id.
func (s *Server) AddComment(issueKey, actor, body string) (id int64) {
	s.with(issueKey, func(r *repo, i *issue) { id = s.comment(r, i, s.user(actor), body).ID })
	return id
}

// EditComment replaces the text of a comment as actor.
func (s *Server) EditComment(issueKey, actor string, id int64, body string) {
	s.with(issueKey, func(r *repo, i *issue) {
		for _, c := range i.Comments {
			if c.ID == id {
				s.editBody(r, i, c, s.user(actor), body)
			}
		}
	})
}

// DeleteComment removes a comment as actor.
func (s *Server) DeleteComment(issueKey, actor string, id int64) {
	s.with(issueKey, func(r *repo, i *issue) { s.dropComment(r, i, s.user(actor), id) })
}

// SetState closes ("closed") or reopens ("open") an issue as actor.
func (s *Server) SetState(issueKey, actor, state string) {
	s.with(issueKey, func(r *repo, i *issue) { s.setState(r, i, s.user(actor), state) })
}

// Delete removes an issue. The API then answers 410.
func (s *Server) Delete(issueKey string) {
	s.with(issueKey, func(_ *repo, i *issue) { i.Deleted = true })
}

// Transfer moves an issue to another repository and returns its new key. The API answers 301 for the old key.
func (s *Server) Transfer(issueKey, fullName string) (to string) {
	s.with(issueKey, func(_ *repo, i *issue) {
		r := s.repos[strings.ToLower(fullName)]
		c := *i
		c.Number, c.Labels, c.Comments = len(r.Issues)+1, slices.Clone(i.Labels), slices.Clone(i.Comments)
		r.Issues = append(r.Issues, &c)
		to = key(r, &c)
		i.MovedTo = to
	})
	return to
}

// Rename changes the name of a repository. The API answers 301 for the old name.
func (s *Server) Rename(fullName, name string) {
	s.mu.Lock()
	defer s.unlock()
	old := s.repos[strings.ToLower(fullName)]
	c := *old
	c.Name = name
	s.repos[strings.ToLower(c.fullName())] = &c
	old.MovedTo = c.fullName()
}

// Issue is a copy of an issue.
type Issue struct {
	Key, Title, Body, State string
	Labels                  []string // sorted
	Comments                []Comment
	// For pull requests only. MergedBy is empty before the merge.
	Head, Base, HeadSHA, MergedBy string
	Draft                         bool
}

// Comment is a copy of a comment.
type Comment struct {
	ID           int64
	Author, Body string
	Reactions    []string // "login +1", oldest first
}

// Issue returns a copy of an issue.
func (s *Server) Issue(issueKey string) (v Issue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on(issueKey, func(r *repo, i *issue) { v = view(r, i) })
	return v
}

func view(r *repo, i *issue) Issue {
	v := Issue{
		Key: key(r, i), Title: i.Title, Body: i.Body, State: i.state(),
		Labels: slices.Sorted(slices.Values(i.Labels)), Head: i.Head, Base: i.Base,
	}
	if i.Pull != nil {
		v.HeadSHA, v.Draft = i.Pull.HeadSHA, i.Pull.Draft
		if i.Pull.MergedBy != nil {
			v.MergedBy = i.Pull.MergedBy.login
		}
	}
	v.Comments = viewComments(i.Comments)
	return v
}

func viewComments(comments []*comment) (all []Comment) {
	for _, c := range comments {
		m := Comment{ID: c.ID, Author: c.Author.login, Body: c.Body}
		for _, x := range c.Reactions {
			m.Reactions = append(m.Reactions, x.User.login+" "+x.Content)
		}
		all = append(all, m)
	}
	return all
}

// Deleted returns the deleted comments of an issue, in the order of their deletion. Only tests use them, because
// GitHub does not show deleted comments.
func (s *Server) Deleted(issueKey string) (all []Comment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on(issueKey, func(_ *repo, i *issue) { all = viewComments(i.dropped) })
	return all
}

// Issues returns all issues and pull requests of a repository.
func (s *Server) Issues(fullName string) (all []Issue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.repos[strings.ToLower(fullName)]; r != nil {
		for _, i := range r.Issues {
			all = append(all, view(r, i))
		}
	}
	return all
}

// Events returns the changes to an issue, oldest first, or to all issues if issueKey is empty.
func (s *store) Events(issueKey string) []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.events), func(e Event) bool {
		return issueKey != "" && !strings.EqualFold(e.Issue, issueKey)
	})
}

// Requests returns the requests to the API, oldest first.
func (s *gate) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Violations counts the requests that clients sent when they should have waited.
func (s *gate) Violations() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.late
}
