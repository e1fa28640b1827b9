package githubtest

import (
	"cmp"
	"embed"
	"encoding/json"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed templates
var templates embed.FS

var pageTemplates = template.Must(template.New("").Funcs(template.FuncMap{
	"markdown":   Render,
	"date":       func(t time.Time) string { return t.UTC().Format("2 Jan 2006, 15:04:05") },
	"textColour": textColour,
}).ParseFS(templates, "templates/*.html"))

// textColour returns a text colour that is readable on the label's colour.
func textColour(color string) string {
	n, err := strconv.ParseUint(color, 16, 32)
	if err != nil || (299*(n>>16&255)+587*(n>>8&255)+114*(n&255))/1000 > 140 {
		return "1f2328"
	}
	return "ffffff"
}

// site serves the pages that people open in a browser.
type site struct {
	*store
	gate *gate
}

// pages returns the routes of the pages. It refuses cross-site requests.
func (s *site) pages() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.homePage)
	mux.HandleFunc("GET /{owner}/{repo}", s.repoPage)
	mux.HandleFunc("GET /{owner}/{repo}/issues", s.repoPage)
	mux.HandleFunc("POST /{owner}/{repo}/issues", s.postIssue)
	mux.HandleFunc("GET /{owner}/{repo}/issues/{number}", s.issuePage)
	mux.HandleFunc("GET /{owner}/{repo}/pull/{number}", s.issuePage)
	mux.HandleFunc("POST /{owner}/{repo}/issues/{number}", s.postToIssue)
	mux.HandleFunc("POST /{owner}/{repo}/pull/{number}", s.postToIssue)
	mux.HandleFunc("GET /{owner}/{repo}/runs/{id}", s.checkPage)
	mux.HandleFunc("GET /{owner}/{repo}/tree/{branch...}", s.branchPage)
	mux.HandleFunc("GET /_sim/requests",
		func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, s.gate.Requests()) })
	mux.HandleFunc("GET /_sim/events", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, http.StatusOK, s.Events(r.URL.Query().Get("issue")))
	})
	mux.HandleFunc("POST /_sim/faults", s.postFault)
	return http.NewCrossOriginProtection().Handler(mux)
}

func (s *site) postFault(w http.ResponseWriter, r *http.Request) {
	var f Fault
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&f); err != nil {
		fail(w, http.StatusBadRequest, "want a fault as JSON: "+err.Error())
		return
	}
	if err := s.gate.Inject(f); err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// pageData is the input of the templates.
type pageData struct {
	Title, Person string
	Repo, Clone   string
	Repos         []string
	Labels        []chip // labels of the repository
	Issues        []row
	Branches      []branch
	Issue         row
	Pull          *pullView
	Check         *checkView
	Body          string
	Timeline      []item
	Diff          string
}

type chip struct{ Name, Color, About string }

type row struct {
	Number            int
	Title, State      string
	Badge             string // open, closed, merged or draft
	URL, Author       string
	Created           time.Time
	Labels            []chip
	Missing           []chip // repository labels that the issue does not have
	Comments          int
	Head, Base        string
	IsPull            bool
	AuthorAssociation string
}

// item is a comment (Body set) or an event.
type item struct {
	ID                     int64
	Author, Role, Body     string
	Bot, IsComment, Edited bool
	Text                   string
	Label                  *chip
	Reactions              []reactionView
	Review                 reviewLine
	Inline                 []Inline
	At                     time.Time
}

// reactionView shows a reaction as a word, because some machines do not have an emoji font.
type reactionView struct{ Content, Who string }

type branch struct{ Name, SHA, Subject string }

func (s *site) show(w http.ResponseWriter, status int, name string, v pageData) {
	v.Person = s.opts.Person
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'")
	w.WriteHeader(status)
	_ = pageTemplates.ExecuteTemplate(w, name, v) // the client has disconnected
}

// missing serves the 404 page.
func (s *site) missing(w http.ResponseWriter, what string) {
	s.show(w, http.StatusNotFound, "missing.html", pageData{Title: "Not found", Body: what})
}

// locate finds the repository and the issue in the path. i is nil if the path does not contain an existing issue. s.mu
// is held.
func (s *site) locate(r *http.Request) (p *repo, i *issue) {
	p = s.repos[strings.ToLower(r.PathValue("owner")+"/"+r.PathValue("repo"))]
	if n, err := strconv.Atoi(r.PathValue("number")); p != nil && err == nil {
		i = p.issue(n)
	}
	return p, i
}

func (s *site) homePage(w http.ResponseWriter, _ *http.Request) {
	v := pageData{Title: "Repositories"}
	s.mu.Lock()
	for _, r := range s.repos {
		v.Repos = append(v.Repos, r.fullName())
	}
	s.mu.Unlock()
	slices.Sort(v.Repos)
	s.show(w, http.StatusOK, "home.html", v)
}

func chips(r *repo, names []string) []chip {
	var out []chip
	for _, n := range names {
		if l := r.label(n); l != nil {
			out = append(out, chip{l.Name, l.Color, l.Description})
		}
	}
	return out
}

func toRow(r *repo, i *issue) row {
	v := row{
		Number: i.Number, Title: i.Title, State: i.state(), Badge: i.badge(), Author: i.Author.login,
		Created: i.Created, Labels: chips(r, i.Labels),
		Comments: len(i.Comments), Head: i.Head, Base: i.Base, IsPull: i.Pull != nil,
		AuthorAssociation: r.association(i.Author),
		URL:               links{}.page(r, i),
	}
	for _, l := range r.Labels {
		if !i.has(l.Name) {
			v.Missing = append(v.Missing, chip{l.Name, l.Color, l.Description})
		}
	}
	return v
}

func (s *site) repoPage(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	p, _ := s.locate(r)
	if p == nil {
		s.mu.Unlock()
		s.missing(w, "There is no such repository.")
		return
	}
	v := pageData{Title: p.fullName(), Repo: p.fullName()}
	for _, l := range p.Labels {
		v.Labels = append(v.Labels, chip{l.Name, l.Color, l.Description})
	}
	for _, i := range slices.Backward(p.Issues) {
		if !i.Deleted && i.MovedTo == "" {
			v.Issues = append(v.Issues, toRow(p, i))
		}
	}
	s.mu.Unlock()
	slices.SortStableFunc(v.Issues, func(a, b row) int { return cmp.Compare(b.State, a.State) }) // open before closed
	if s.opts.DataDir != "" {
		v.Clone = origin(r) + "/" + v.Repo + ".git"
		v.Branches = s.branches(v.Repo)
	}
	s.show(w, http.StatusOK, "repo.html", v)
}

func (s *site) branches(fullName string) []branch {
	out, err := git(s.bare(fullName), nil, "for-each-ref", "--sort=refname",
		"--format=%(refname:short)%09%(objectname:short)%09%(subject)", "refs/heads")
	if err != nil || out == "" {
		return nil
	}
	var all []branch
	for line := range strings.Lines(out) {
		if f := strings.SplitN(strings.TrimRight(line, "\n"), "\t", 3); len(f) == 3 {
			all = append(all, branch{f[0], f[1], f[2]})
		}
	}
	return all
}

// diffLimit is the maximum length of a diff on a page, in bytes.
const diffLimit = 64 << 10

// diff returns the changes in to since its merge base with from.
func (s *site) diff(fullName, from, to string) string {
	if s.opts.DataDir == "" || from == "" || to == "" {
		return ""
	}
	out, err := git(s.bare(fullName), nil, "diff", "--no-color", "--no-ext-diff", "--stat", "--patch", from+"..."+to)
	if err != nil {
		return err.Error()
	}
	return out[:min(len(out), diffLimit)]
}

func (s *site) branchPage(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	p, _ := s.locate(r)
	s.mu.Unlock()
	name := r.PathValue("branch")
	if p == nil {
		s.missing(w, "There is no such repository.")
		return
	}
	head, ok := s.commitOf(p.fullName(), name)
	if !ok {
		s.missing(w, "There is no such branch.")
		return
	}
	base, _ := s.commitOf(p.fullName(), mainBranch)
	s.show(w, http.StatusOK, "branch.html",
		pageData{Title: name, Repo: p.fullName(), Diff: s.diff(p.fullName(), base, head)})
}

func (s *site) issuePage(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	p, i := s.locate(r)
	if i == nil || i.Deleted || i.MovedTo != "" {
		s.mu.Unlock()
		s.missing(w, "There is no such issue.")
		return
	}
	s.followHeads(p, p.Owner)
	v := pageData{
		Title: i.Title, Repo: p.fullName(), Issue: toRow(p, i), Pull: s.pullView(p, i), Body: i.Body,
		Timeline: s.timeline(p, i),
	}
	base, head := "", ""
	if i.Pull != nil {
		base, head = i.Pull.BaseSHA, i.Pull.HeadSHA
	}
	s.release()
	if v.Issue.IsPull {
		v.Diff = s.diff(v.Repo, base, head)
	}
	s.show(w, http.StatusOK, "issue.html", v)
}

var eventTexts = map[string]string{
	"edited": "edited this", "labeled": "added", "unlabeled": "removed", "closed": "closed this",
	"reopened": "reopened this", "merged": "merged this as", "synchronized": "pushed",
	"ready_for_review": "marked this as ready for review", "convert_to_draft": "marked this as a draft",
	"review_dismissed": "dismissed a review", "renamed": "changed the title",
}

// timeline merges comments and events in the order of their ids, which is also their order in time. s.mu is held.
func (s *site) timeline(p *repo, i *issue) []item {
	var all []item
	for _, c := range i.Comments {
		all = append(all, item{
			ID: c.ID, Author: c.Author.login, Role: strings.ToLower(p.association(c.Author)), Body: c.Body,
			Bot:       c.Author.bot,
			IsComment: true, Edited: s.edited(i, c, p), At: c.Created, Reactions: moods(c.Reactions),
		})
	}
	for _, e := range s.events {
		text, ok := eventTexts[e.Event]
		if !ok || e.Issue != key(p, i) {
			continue
		}
		it := item{ID: e.ID, Author: e.Actor, Text: text, At: e.At}
		if e.Event == "renamed" {
			it.Text += " “" + e.From + "” to “" + e.To + "”"
		}
		if e.Event == "merged" || e.Event == "synchronized" {
			it.Text += " " + short(e.Detail)
		} else if l := p.label(e.Detail); l != nil && e.Detail != "" {
			it.Label = &chip{l.Name, l.Color, l.Description}
		}
		all = append(all, it)
	}
	all = append(all, i.Pull.reviewItems(p)...)
	slices.SortFunc(all, func(a, b item) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

func moods(all []*reaction) []reactionView {
	var out []reactionView
	for _, k := range reactionKinds {
		var who []string
		for _, x := range all {
			if x.Content == k {
				who = append(who, x.User.login)
			}
		}
		if len(who) > 0 {
			out = append(out, reactionView{k, strings.Join(who, ", ")})
		}
	}
	return out
}

func (s *site) edited(i *issue, c *comment, p *repo) bool {
	return slices.ContainsFunc(s.events, func(e Event) bool {
		return e.Event == "comment_edited" && e.Detail == itoa(c.ID) && e.Issue == key(p, i)
	})
}
