package githubtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// call is one request from a known user to a route. The server holds s.mu while it answers.
type call struct {
	*store
	gate   *gate
	w      http.ResponseWriter
	r      *http.Request
	to     links
	user   *user
	repo   *repo
	on     *issue   // issue or pull request in the path
	said   *comment // comment in the path
	review *review
	sha    string                     // commit in the path
	body   map[string]json.RawMessage // the JSON object in the request
	list   []string                   // the JSON array in the request (labels)
}

// needs holds a route's conditions as bits. prepare checks them before the handler runs.
type needs int

const (
	needsRepo    needs = 1 << iota // from the path
	needsIssue                     // from the path
	needsTriage                    // the user may label issues
	needsWrite                     // the user has write access
	needsPull                      // the issue in the path is a pull request
	needsComment                   // from the path
	needsReview                    // from the path
	needsCommit                    // from the path
	needsOwn                       // the user wrote the comment or issue, or has write access
)

// reply is the status and the body of a response. The zero reply means that the request may proceed.
type reply struct {
	status int
	body   any
}

func ok(body any) reply      { return reply{http.StatusOK, body} }
func created(body any) reply { return reply{http.StatusCreated, body} }

var (
	noContent = reply{http.StatusNoContent, nil}
	notFound  = failed(http.StatusNotFound, "Not Found")
	forbidden = failed(http.StatusForbidden, "Must have admin rights to Repository.")
)

// failed returns an error in GitHub's format.
func failed(status int, message string, errs ...any) reply {
	v := object{"message": message, "documentation_url": "https://docs.github.com/rest", "status": itoa(status)}
	if len(errs) > 0 {
		v["errors"] = errs
	}
	return reply{status, v}
}

func unprocessable(message string) reply { return failed(http.StatusUnprocessableEntity, message) }

func invalid(resource, field, code string) reply {
	return failed(http.StatusUnprocessableEntity, "Validation Failed",
		object{"resource": resource, "field": field, "code": code})
}

// complaint returns the message of an error reply.
func (a reply) complaint() string {
	body, _ := a.body.(object)
	all, _ := body["errors"].([]any)
	for _, e := range all {
		if text, ok := e.(object)["message"].(string); ok {
			return text
		}
	}
	text, _ := body["message"].(string)
	return text
}

func (a reply) send(w http.ResponseWriter) {
	if a.body == nil {
		w.WriteHeader(a.status)
		return
	}
	writeJSON(w, a.status, a.body)
}

func fail(w http.ResponseWriter, status int, message string) { failed(status, message).send(w) }

type route struct {
	pattern string
	needs   needs
	handle  func(*call) reply
}

const (
	repoPath  = APIPath + "repos/{owner}/{repo}"
	issuePath = repoPath + "/issues/{number}"
	notePath  = repoPath + "/issues/comments/{id}"
	pullPath  = repoPath + "/pulls/{number}"
)

var routeTable = []route{
	{"GET " + APIPath + "user", 0, getUser},
	{"GET " + APIPath + "rate_limit", 0, getRateLimit},
	{"GET " + repoPath, needsRepo, getRepo},
	{"GET " + repoPath + "/collaborators/{login}", needsRepo, isCollaborator},
	{"GET " + repoPath + "/collaborators/{login}/permission", needsRepo, getPermission},
	{"GET " + repoPath + "/issues", needsRepo, listIssues},
	{"POST " + repoPath + "/issues", needsRepo, createIssue},
	{"GET " + issuePath, needsIssue, getIssue},
	{"PATCH " + issuePath, needsIssue, patchIssue},
	{"GET " + issuePath + "/events", needsIssue, listEvents},
	{"GET " + issuePath + "/comments", needsIssue, listComments},
	{"POST " + issuePath + "/comments", needsIssue, createComment},
	{"GET " + issuePath + "/dependencies/blocked_by", needsIssue, listBlockers},
	{"GET " + issuePath + "/sub_issues", needsIssue, listSubIssues},
	{"GET " + issuePath + "/labels", needsIssue, sendLabels},
	{"POST " + issuePath + "/labels", needsIssue | needsTriage, addLabels},
	{"PUT " + issuePath + "/labels", needsIssue | needsTriage, setLabels},
	{"DELETE " + issuePath + "/labels/{name}", needsIssue | needsTriage, removeLabel},
	{"GET " + notePath, needsComment, getComment},
	{"PATCH " + notePath, needsComment | needsOwn, editComment},
	{"DELETE " + notePath, needsComment | needsOwn, deleteComment},
	{"GET " + notePath + "/reactions", needsComment, listReactions},
	{"POST " + notePath + "/reactions", needsComment, createReaction},
	{"DELETE " + notePath + "/reactions/{reaction}", needsComment, deleteReaction},
	{"GET " + repoPath + "/issues/comments", needsRepo, listAllComments},
	{"GET " + repoPath + "/labels", needsRepo, listLabels},
	{"POST " + repoPath + "/labels", needsRepo | needsWrite, createLabel},
	{"GET " + repoPath + "/labels/{name}", needsRepo, getLabel},
	{"GET " + repoPath + "/pulls", needsRepo, listPulls},
	{"POST " + repoPath + "/pulls", needsRepo | needsWrite, createPull},
	{"GET " + pullPath, needsPull, getPull},
	{"PATCH " + pullPath, needsPull | needsOwn, editPull},
	{"GET " + pullPath + "/merge", needsPull, isMerged},
	{"PUT " + pullPath + "/merge", needsPull | needsWrite, putMerge},
	{"GET " + pullPath + "/comments", needsPull, listReviewComments},
	{"GET " + pullPath + "/reviews", needsPull, listReviews},
	{"POST " + pullPath + "/reviews", needsPull, createReview},
	{"GET " + pullPath + "/reviews/{review}/comments", needsPull | needsReview, listCommentsOfReview},
	{"PUT " + pullPath + "/reviews/{review}/dismissals", needsPull | needsReview | needsWrite, dismissReview},
	{"GET " + repoPath + "/commits/{ref}/check-runs", needsRepo | needsCommit, listChecks},
	{"POST " + repoPath + "/check-runs", needsRepo | needsWrite, createCheck},
	{"PATCH " + repoPath + "/check-runs/{id}", needsRepo | needsWrite, editCheck},
	{"GET " + repoPath + "/commits/{ref}/status", needsRepo | needsCommit, getStatus},
	{"POST " + repoPath + "/statuses/{ref}", needsRepo | needsWrite | needsCommit, createStatus},
	{"GET " + repoPath + "/git/ref/{ref...}", needsRepo, getRef},
	{"DELETE " + repoPath + "/git/refs/{ref...}", needsRepo | needsWrite, deleteRef},
	{"POST " + GraphQLPath, 0, graphQL},
}

func routes(g *gate) http.Handler {
	// Comments have a separate mux, because ServeMux rejects patterns that overlap, such as …/issues/comments/{id} and
	// …/issues/{number}/events.
	mux, comments := http.NewServeMux(), http.NewServeMux()
	muxFor := func(path string) *http.ServeMux {
		if strings.Contains(path, "/issues/comments/") {
			return comments
		}
		return mux
	}
	for _, route := range routeTable {
		muxFor(route.pattern).HandleFunc(route.pattern, func(w http.ResponseWriter, r *http.Request) {
			g.mu.Lock()
			if r.Method == http.MethodGet {
				defer g.release()
			} else {
				defer g.unlock()
			}
			c := &call{store: g.store, gate: g, w: w, r: r, to: linksOf(r), user: g.apps.caller(r).user}
			a := c.prepare(route.needs)
			if a.status == 0 {
				a = route.handle(c)
			}
			a.send(w)
		})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		on := muxFor(r.URL.Path)
		if _, pattern := on.Handler(r); pattern == "" {
			notFound.send(w)
			return
		}
		on.ServeHTTP(w, r)
	})
}

const maxBody = 1 << 20

// prepare parses the path and the body, and checks the route's needs.
func (c *call) prepare(n needs) reply {
	for _, step := range []func(needs) reply{c.findRepo, c.findIssue, c.mayUse, c.readBody, c.findRest} {
		if a := step(n); a.status != 0 {
			return a
		}
	}
	return reply{}
}

func (c *call) findRepo(n needs) reply {
	if n == 0 {
		return reply{}
	}
	if c.repo = c.find(c.r.PathValue("owner") + "/" + c.r.PathValue("repo")); c.repo == nil {
		return notFound
	}
	if c.repo.MovedTo != "" {
		return c.redirect("/repos/"+c.repo.fullName(), "/repos/"+c.repo.MovedTo)
	}
	return reply{}
}

func (c *call) findIssue(n needs) reply {
	if n&(needsIssue|needsPull) == 0 {
		return reply{}
	}
	number, _ := strconv.Atoi(c.r.PathValue("number"))
	switch c.on = c.repo.issue(number); {
	case c.on == nil:
		return notFound
	case c.on.Deleted:
		return failed(http.StatusGone, "This issue was deleted")
	case c.on.MovedTo != "":
		name, num, _ := strings.Cut(c.on.MovedTo, "#")
		return c.redirect("/repos/"+c.repo.fullName()+"/issues/"+itoa(number), "/repos/"+name+"/issues/"+num)
	case n&needsPull != 0 && c.on.Pull == nil:
		return notFound
	}
	return reply{}
}

func (c *call) mayUse(n needs) reply {
	if n&needsWrite != 0 && !c.repo.mayWrite(c.user) || n&needsTriage != 0 && !c.repo.mayTriage(c.user) {
		return forbidden
	}
	return reply{}
}

func (c *call) readBody(needs) reply {
	if c.r.Method == http.MethodGet || c.r.Method == http.MethodDelete {
		return reply{}
	}
	var raw json.RawMessage
	if json.NewDecoder(http.MaxBytesReader(c.w, c.r.Body, maxBody)).Decode(&raw) != nil ||
		json.Unmarshal(raw, &c.body) != nil && json.Unmarshal(raw, &c.list) != nil {
		return failed(http.StatusBadRequest, "Problems parsing JSON")
	}
	return reply{}
}

// findRest finds the comment, review or commit in the path, and checks needsOwn.
func (c *call) findRest(n needs) reply {
	author := func() *user { return c.on.Author }
	if n&needsComment != 0 {
		if c.findComment(); c.said == nil {
			return notFound
		}
		author = func() *user { return c.said.Author }
	}
	if n&needsReview != 0 {
		at := slices.IndexFunc(c.on.Pull.Reviews, func(v *review) bool { return itoa(v.ID) == c.r.PathValue("review") })
		if at < 0 {
			return notFound
		}
		c.review = c.on.Pull.Reviews[at]
	}
	if n&needsCommit != 0 {
		sha, no := c.commit(c.r.PathValue("ref"))
		if no.status != 0 {
			return no
		}
		c.sha = sha
	}
	if n&needsOwn != 0 && author() != c.user && !c.repo.mayWrite(c.user) {
		return forbidden
	}
	return reply{}
}

// redirect answers 301 to a GET and 307 to everything else, as GitHub does.
func (c *call) redirect(from, to string) reply {
	loc := c.to.api + strings.Replace(c.r.URL.EscapedPath(), strings.TrimSuffix(APIPath, "/")+from, to, 1)
	if c.r.URL.RawQuery != "" {
		loc += "?" + c.r.URL.RawQuery
	}
	status := http.StatusTemporaryRedirect
	if c.r.Method == http.MethodGet {
		status = http.StatusMovedPermanently
	}
	c.w.Header().Set("Location", loc)
	return reply{status, object{
		"message": "Moved Permanently", "url": loc, "documentation_url": "https://docs.github.com/rest",
	}}
}

// text reads a string field of the body.
func (c *call) text(field string) (s string, ok bool) {
	raw, ok := c.body[field]
	ok = ok && json.Unmarshal(raw, &s) == nil
	return s, ok
}

// field reads an optional string field of the body.
func (c *call) field(name string) string {
	s, _ := c.text(name)
	return s
}

// page returns the part of a list that the parameters page and per_page select, and sets the Link header.
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

// objects renders a page of a list. It returns an empty slice instead of nil, so an empty page is [] in JSON.
func objects[T any](c *call, all []T, render func(T) object) []object {
	out := []object{}
	for _, v := range page(c, all) {
		out = append(out, render(v))
	}
	return out
}

func list[T any](c *call, all []T, render func(T) object) reply { return ok(objects(c, all, render)) }

// issue renders an issue of the repository.
func (c *call) issue(i *issue) object { return c.to.issue(c.repo, i) }
