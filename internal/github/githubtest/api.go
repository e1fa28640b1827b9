package githubtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// call is one request of a known user to a route; s.mu is held while it is answered.
type call struct {
	*Server
	w    http.ResponseWriter
	r    *http.Request
	user *user
	repo *repo
	on   *issue
	to   links
	body map[string]json.RawMessage // of requests with a JSON object
	list []string                   // of requests with a JSON array (labels)
}

// needs of a route, checked before its handler in this order: the repository and the issue in the path, triage
// or write access, that it is a pull request.
type needs int

const (
	needsNothing needs = 0
	needsRepo    needs = 1 << iota
	needsIssue
	needsTriage
	needsWrite
	needsPull // the issue is a pull request
)

func (s *Server) routes() http.Handler {
	// Comments have a mux of their own: …/issues/comments/{id} and …/issues/{number}/events would both fit some paths.
	mux, comments := http.NewServeMux(), http.NewServeMux()
	repo, issue := APIPath+"repos/{owner}/{repo}", APIPath+"repos/{owner}/{repo}/issues/{number}"
	pull := repo + "/pulls/{number}"
	for _, route := range []struct {
		pattern string
		needs   needs
		handle  func(*call)
	}{
		{"GET " + APIPath + "user", needsNothing, (*call).getUser},
		{"GET " + APIPath + "rate_limit", needsNothing, (*call).getRateLimit},
		{"GET " + repo, needsRepo, (*call).getRepo},
		{"GET " + repo + "/collaborators/{login}", needsRepo, (*call).isCollaborator},
		{"GET " + repo + "/collaborators/{login}/permission", needsRepo, (*call).getPermission},
		{"GET " + repo + "/issues", needsRepo, (*call).listIssues},
		{"POST " + repo + "/issues", needsRepo, (*call).createIssue},
		{"GET " + issue, needsRepo | needsIssue, (*call).getIssue},
		{"PATCH " + issue, needsRepo | needsIssue, (*call).patchIssue},
		{"GET " + issue + "/events", needsRepo | needsIssue, (*call).listEvents},
		{"GET " + issue + "/comments", needsRepo | needsIssue, (*call).listComments},
		{"POST " + issue + "/comments", needsRepo | needsIssue, (*call).createComment},
		{"GET " + issue + "/dependencies/blocked_by", needsRepo | needsIssue, (*call).listBlockers},
		{"GET " + issue + "/sub_issues", needsRepo | needsIssue, (*call).listSubIssues},
		{"GET " + issue + "/labels", needsRepo | needsIssue, (*call).listIssueLabels},
		{"POST " + issue + "/labels", needsRepo | needsIssue | needsTriage, (*call).addLabels},
		{"PUT " + issue + "/labels", needsRepo | needsIssue | needsTriage, (*call).setLabels},
		{"DELETE " + issue + "/labels/{name}", needsRepo | needsIssue | needsTriage, (*call).removeLabel},
		{"GET " + repo + "/issues/comments/{id}", needsRepo, (*call).getComment},
		{"PATCH " + repo + "/issues/comments/{id}", needsRepo, (*call).editComment},
		{"DELETE " + repo + "/issues/comments/{id}", needsRepo, (*call).deleteComment},
		{"GET " + repo + "/issues/comments/{id}/reactions", needsRepo, (*call).listReactions},
		{"POST " + repo + "/issues/comments/{id}/reactions", needsRepo, (*call).createReaction},
		{"DELETE " + repo + "/issues/comments/{id}/reactions/{reaction}", needsRepo, (*call).deleteReaction},
		{"GET " + repo + "/issues/comments", needsRepo, (*call).listAllComments},
		{"GET " + repo + "/labels", needsRepo, (*call).listLabels},
		{"POST " + repo + "/labels", needsRepo | needsWrite, (*call).createLabel},
		{"GET " + repo + "/labels/{name}", needsRepo, (*call).getLabel},
		{"GET " + repo + "/pulls", needsRepo, (*call).listPulls},
		{"POST " + repo + "/pulls", needsRepo | needsWrite, (*call).createPull},
		{"GET " + pull, needsPull, (*call).getPull},
		{"PATCH " + pull, needsPull, (*call).editPull},
		{"GET " + pull + "/merge", needsPull, (*call).isMerged},
		{"PUT " + pull + "/merge", needsPull | needsWrite, (*call).putMerge},
		{"GET " + pull + "/comments", needsPull, (*call).listReviewComments},
		{"GET " + pull + "/reviews", needsPull, (*call).listReviews},
		{"POST " + pull + "/reviews", needsPull, (*call).createReview},
		{"GET " + pull + "/reviews/{review}/comments", needsPull, (*call).listCommentsOfReview},
		{"PUT " + pull + "/reviews/{review}/dismissals", needsPull | needsWrite, (*call).dismissReview},
		{"GET " + repo + "/commits/{ref}/check-runs", needsRepo, (*call).listChecks},
		{"POST " + repo + "/check-runs", needsRepo | needsWrite, (*call).createCheck},
		{"PATCH " + repo + "/check-runs/{id}", needsRepo | needsWrite, (*call).editCheck},
		{"GET " + repo + "/commits/{ref}/status", needsRepo, (*call).getStatus},
		{"POST " + repo + "/statuses/{sha}", needsRepo | needsWrite, (*call).createStatus},
		{"GET " + repo + "/git/ref/{ref...}", needsRepo, (*call).getRef},
		{"DELETE " + repo + "/git/refs/{ref...}", needsRepo | needsWrite, (*call).deleteRef},
		{"POST " + GraphQLPath, needsNothing, (*call).graphQL},
	} {
		on := mux
		if strings.Contains(route.pattern, commentsPath) {
			on = comments
		}
		on.HandleFunc(route.pattern, func(w http.ResponseWriter, r *http.Request) {
			s.mu.Lock()
			if r.Method == http.MethodGet {
				defer s.release()
			} else {
				defer s.unlock()
			}
			c := &call{Server: s, w: w, r: r, to: linksOf(r), user: s.byToken(r)}
			if c.prepare(route.needs) {
				route.handle(c)
			}
		})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		on := mux
		if strings.Contains(r.URL.Path, commentsPath) {
			on = comments
		}
		if _, pattern := on.Handler(r); pattern == "" {
			fail(w, http.StatusNotFound, "Not Found")
			return
		}
		on.ServeHTTP(w, r)
	})
}

const commentsPath = "/issues/comments/"

// byToken finds the user of a request: Bearer, token or Basic.
func (s *Server) byToken(r *http.Request) *user {
	_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if _, password, ok := r.BasicAuth(); ok {
		token = password
	}
	for _, u := range s.users {
		if u.token != "" && u.token == token {
			return u
		}
	}
	return s.ownerOf(token)
}

const maxBody = 1 << 20

// prepare reads what the path and body name; after false the request is answered.
func (c *call) prepare(n needs) bool {
	if n&needsPull != 0 {
		n |= needsRepo | needsIssue
	}
	if n&needsRepo != 0 {
		if c.repo = c.repos[strings.ToLower(c.r.PathValue("owner")+"/"+c.r.PathValue("repo"))]; c.repo == nil {
			return c.fail(http.StatusNotFound, "Not Found")
		}
		if c.repo.MovedTo != "" {
			return c.redirect("/repos/"+c.repo.fullName(), "/repos/"+c.repo.MovedTo)
		}
	}
	if n&needsIssue != 0 {
		number, _ := strconv.Atoi(c.r.PathValue("number"))
		switch c.on = c.repo.issue(number); {
		case c.on == nil:
			return c.fail(http.StatusNotFound, "Not Found")
		case c.on.Deleted:
			return c.fail(http.StatusGone, "This issue was deleted")
		case c.on.MovedTo != "":
			name, num, _ := strings.Cut(c.on.MovedTo, "#")
			return c.redirect("/repos/"+c.repo.fullName()+"/issues/"+itoa(number), "/repos/"+name+"/issues/"+num)
		case n&needsPull != 0 && c.on.Pull == nil:
			return c.fail(http.StatusNotFound, "Not Found")
		}
	}
	if n&needsWrite != 0 && !c.repo.mayWrite(c.user) || n&needsTriage != 0 && !c.repo.mayTriage(c.user) {
		return c.fail(http.StatusForbidden, "Must have admin rights to Repository.")
	}
	if c.r.Method == http.MethodGet || c.r.Method == http.MethodDelete {
		return true
	}
	dec := json.NewDecoder(http.MaxBytesReader(c.w, c.r.Body, maxBody))
	var raw json.RawMessage
	if dec.Decode(&raw) != nil || json.Unmarshal(raw, &c.body) != nil && json.Unmarshal(raw, &c.list) != nil {
		return c.fail(http.StatusBadRequest, "Problems parsing JSON")
	}
	return true
}

// redirect answers 301 to a GET and 307 to everything else, as GitHub does.
func (c *call) redirect(from, to string) bool {
	path := strings.Replace(c.r.URL.EscapedPath(), strings.TrimSuffix(APIPath, "/")+from, to, 1)
	loc := c.to.api + path
	if c.r.URL.RawQuery != "" {
		loc += "?" + c.r.URL.RawQuery
	}
	status := http.StatusTemporaryRedirect
	if c.r.Method == http.MethodGet {
		status = http.StatusMovedPermanently
	}
	c.w.Header().Set("Location", loc)
	writeJSON(c.w, status, object{
		"message": "Moved Permanently", "url": loc,
		"documentation_url": "https://docs.github.com/rest",
	})
	return false
}

func (c *call) fail(status int, message string, errs ...any) bool {
	fail(c.w, status, message, errs...)
	return false
}

func (c *call) invalid(resource, field, code string) {
	c.fail(http.StatusUnprocessableEntity, "Validation Failed", object{
		"resource": resource, "field": field,
		"code": code,
	})
}

// text reads a string field of the body.
func (c *call) text(field string) (s string, ok bool) {
	raw, ok := c.body[field]
	ok = ok && json.Unmarshal(raw, &s) == nil
	return s, ok
}

// page cuts a list to what page and per_page ask for and sets the Link header.
func page[T any](c *call, all []T) []T {
	q := c.r.URL.Query()
	per, _ := strconv.Atoi(q.Get("per_page"))
	if per < 1 {
		per = 30
	}
	per = min(per, 100)
	n, _ := strconv.Atoi(q.Get("page"))
	n = max(n, 1)
	last := max(1, (len(all)+per-1)/per)
	var rel []string
	add := func(name string, number int) {
		q.Set("page", itoa(number))
		rel = append(rel, fmt.Sprintf("<%s%s?%s>; rel=%q", origin(c.r), c.r.URL.EscapedPath(), q.Encode(), name))
	}
	if n > 1 {
		add("prev", n-1)
	}
	if n < last {
		add("next", n+1)
		add("last", last)
	}
	if n > 1 {
		add("first", 1)
	}
	if len(rel) > 0 {
		c.w.Header().Set("Link", strings.Join(rel, ", "))
	}
	start := min((n-1)*per, len(all))
	return all[start:min(start+per, len(all))]
}

// objects renders a list, never as null.
func objects[T any](all []T, render func(T) object) []object {
	out := make([]object, 0, len(all))
	for _, v := range all {
		out = append(out, render(v))
	}
	return out
}

func (c *call) getUser() {
	if c.user.token == "" { // an App's account, to which its installation's tokens belong
		c.fail(http.StatusForbidden, "Resource not accessible by integration")
		return
	}
	writeJSON(c.w, http.StatusOK, c.to.me(c.user))
}

func (c *call) getRateLimit() {
	b := c.budgetOf(c.user.login)
	core := object{
		"limit": c.opts.RateLimit, "used": b.Used, "remaining": max(0, c.opts.RateLimit-b.Used),
		"reset": b.Reset.Unix(),
	}
	writeJSON(c.w, http.StatusOK, object{"resources": object{"core": core, "search": core}, "rate": core})
}

func (c *call) getRepo() {
	o := c.to.repo(c.repo)
	o["permissions"] = c.repo.rights(c.user)
	writeJSON(c.w, http.StatusOK, o)
}

// rights are what GitHub lists of a user's permission.
func (r *repo) rights(u *user) object {
	role := r.permission(u)
	return object{
		"admin": role == "admin", "maintain": role == "admin" || role == "maintain", "push": r.mayWrite(u),
		"triage": r.mayTriage(u), "pull": true,
	}
}

func (c *call) isCollaborator() {
	u := c.users[c.r.PathValue("login")]
	if _, ok := c.repo.Collaborators[c.r.PathValue("login")]; !ok && u != c.repo.Owner {
		c.fail(http.StatusNotFound, "Not Found")
		return
	}
	c.w.WriteHeader(http.StatusNoContent)
}

func (c *call) getPermission() {
	u := c.users[c.r.PathValue("login")]
	if u == nil {
		c.fail(http.StatusNotFound, "Not Found")
		return
	}
	role := c.repo.permission(u)
	coarse := map[string]string{"maintain": "write", "triage": "read"}
	who := c.to.user(u)
	who["role_name"] = role
	who["permissions"] = c.repo.rights(u)
	writeJSON(c.w, http.StatusOK, object{"permission": cmp.Or(coarse[role], role), "role_name": role, "user": who})
}

func (c *call) listIssues() {
	q := c.r.URL.Query()
	state := cmp.Or(q.Get("state"), "open")
	since, err := time.Parse(time.RFC3339, cmp.Or(q.Get("since"), "1970-01-01T00:00:00Z"))
	if err != nil {
		c.invalid("Issue", "since", "invalid")
		return
	}
	var labels []string
	if q.Get("labels") != "" {
		labels = strings.Split(q.Get("labels"), ",")
	}
	var all []*issue
	for _, i := range c.repo.Issues {
		lacks := slices.ContainsFunc(labels, func(l string) bool { return !i.has(l) })
		if !i.Deleted && i.MovedTo == "" && (state == "all" || state == i.state()) && !i.Updated.Before(since) &&
			!lacks {
			all = append(all, i)
		}
	}
	by := map[string]func(a, b *issue) int{
		"created": func(a, b *issue) int { return cmp.Compare(a.Number, b.Number) },
		"updated": func(a, b *issue) int {
			return cmp.Or(a.Updated.Compare(b.Updated),
				cmp.Compare(a.Number, b.Number))
		},
		"comments": func(a, b *issue) int { return cmp.Compare(len(a.Comments), len(b.Comments)) },
	}[cmp.Or(q.Get("sort"), "created")]
	if by == nil {
		c.invalid("Issue", "sort", "invalid")
		return
	}
	slices.SortStableFunc(all, by)
	if q.Get("direction") != "asc" {
		slices.Reverse(all)
	}
	writeJSON(c.w, http.StatusOK, objects(page(c, all), func(i *issue) object { return c.to.issue(c.repo, i) }))
}

func (c *call) createIssue() {
	title, ok := c.text("title")
	if !ok || title == "" {
		c.invalid("Issue", "title", "missing_field")
		return
	}
	body, _ := c.text("body")
	var labels []string
	if c.repo.mayTriage(c.user) {
		_ = json.Unmarshal(c.body["labels"], &labels)
	}
	writeJSON(c.w, http.StatusCreated, c.to.issue(c.repo, c.newIssue(c.repo, c.user, title, body, labels)))
}

func (c *call) getIssue() { writeJSON(c.w, http.StatusOK, c.to.issue(c.repo, c.on)) }

func (c *call) patchIssue() {
	title, retitled := c.text("title")
	body, rewritten := c.text("body")
	state, moved := c.text("state")
	if (retitled || rewritten) && !c.repo.mayEdit(c.on, c.user) || moved && c.on.Author != c.user &&
		!c.repo.mayTriage(c.user) {
		c.fail(http.StatusForbidden, "Must have admin rights to Repository.")
		return
	}
	if !retitled {
		title = c.on.Title
	}
	if !rewritten {
		body = c.on.Body
	}
	c.editIssue(c.repo, c.on, c.user, title, body)
	if moved {
		c.setState(c.repo, c.on, c.user, state)
	}
	writeJSON(c.w, http.StatusOK, c.to.issue(c.repo, c.on))
}

// timeline are the events that GitHub's issue events have; comments are not among them.
var timeline = []string{
	"renamed", "labeled", "unlabeled", "closed", "reopened", "merged", "ready_for_review",
	"convert_to_draft", "review_dismissed",
}

func (c *call) listEvents() {
	var all []Event
	for _, e := range c.events {
		if e.Issue == key(c.repo, c.on) && slices.Contains(timeline, e.Event) {
			all = append(all, e)
		}
	}
	writeJSON(c.w, http.StatusOK, objects(page(c, all), func(e Event) object {
		o := c.to.event(c.repo, c.Server, e)
		if l := c.repo.label(e.Detail); l != nil {
			o["label"] = object{"name": l.Name, "color": l.Color}
		}
		return o
	}))
}
