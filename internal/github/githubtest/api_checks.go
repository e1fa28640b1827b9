package githubtest

import (
	"cmp"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"time"
)

var fullSHA = regexp.MustCompile(`^[0-9a-f]{40}$`)

// commit is the commit that a path or body names: a full SHA or a branch. After false the request is answered.
func (c *call) commit(ref string) (string, bool) {
	if sha, ok := c.tip(c.repo, ref); ok {
		return sha, true
	}
	known := fullSHA.MatchString(ref)
	if known && c.opts.DataDir != "" {
		_, err := git(c.bare(c.repo.fullName()), nil, "cat-file", "-e", ref+"^{commit}")
		known = err == nil
	}
	if !known {
		return "", c.fail(http.StatusUnprocessableEntity, "No commit found for SHA: "+ref)
	}
	return ref, true
}

func (c *call) listChecks() {
	sha, ok := c.commit(c.r.PathValue("ref"))
	if !ok {
		return
	}
	q := c.r.URL.Query()
	all := c.repo.latestChecks(sha)
	if q.Get("filter") == "all" {
		all = slices.DeleteFunc(slices.Clone(c.repo.checks), func(k *checkRun) bool { return k.sha != sha })
	}
	all = slices.DeleteFunc(all, func(k *checkRun) bool {
		return q.Get("check_name") != "" && q.Get("check_name") != k.name || q.Get("status") != "" &&
			q.Get("status") != k.status
	})
	writeJSON(c.w, http.StatusOK, object{
		"total_count": len(all), "check_runs": objects(page(c, all),
			func(k *checkRun) object { return c.to.check(c.repo, k) }),
	})
}

func (c *call) createCheck() {
	name, _ := c.text("name")
	ref, _ := c.text("head_sha")
	if name == "" {
		c.invalid("CheckRun", "name", "missing_field")
		return
	}
	sha, ok := c.commit(ref)
	if !ok {
		return
	}
	k := &checkRun{sha: sha, name: name, status: checkQueued, started: c.now()}
	if !c.readCheck(k) {
		return
	}
	k.id = c.id()
	c.repo.checks = append(c.repo.checks, k)
	writeJSON(c.w, http.StatusCreated, c.to.check(c.repo, k))
}

func (c *call) editCheck() {
	id, _ := strconv.ParseInt(c.r.PathValue("id"), 10, 64)
	at := slices.IndexFunc(c.repo.checks, func(k *checkRun) bool { return k.id == id })
	if at < 0 {
		c.fail(http.StatusNotFound, "Not Found")
		return
	}
	changed := *c.repo.checks[at]
	if name, ok := c.text("name"); ok && name != "" {
		changed.name = name
	}
	if c.readCheck(&changed) {
		*c.repo.checks[at] = changed
		writeJSON(c.w, http.StatusOK, c.to.check(c.repo, &changed))
	}
}

// conclusions that a client may give.
var conclusions = []string{"action_required", "cancelled", "failure", "neutral", "success", "skipped", "timed_out"}

// readCheck reads what creating and changing a check run have in common. After false the request is answered.
func (c *call) readCheck(k *checkRun) bool {
	status, _ := c.text("status")
	conclusion, _ := c.text("conclusion")
	if conclusion != "" {
		status = checkCompleted
	}
	switch {
	case !slices.Contains([]string{"", checkQueued, checkInProgress, checkCompleted}, status):
		c.invalid("CheckRun", "status", "invalid")
		return false
	case status == checkCompleted && !slices.Contains(conclusions, conclusion):
		c.invalid("CheckRun", "conclusion", "invalid")
		return false
	}
	if status != "" {
		k.status, k.conclusion, k.completed = status, conclusion, time.Time{}
	}
	if status == checkCompleted {
		k.completed = c.now()
		if at, ok := c.text("completed_at"); ok {
			k.completed, _ = time.Parse(time.RFC3339, at)
		}
	}
	if v, ok := c.text("details_url"); ok {
		k.details = v
	}
	if v, ok := c.text("external_id"); ok {
		k.external = v
	}
	var out struct{ Title, Summary, Text string }
	if json.Unmarshal(c.body["output"], &out) == nil {
		k.title, k.summary, k.text = out.Title, out.Summary, out.Text
	}
	return true
}

func (l links) check(r *repo, k *checkRun) object {
	api := l.api + "/repos/" + r.fullName()
	html := l.web + "/" + r.fullName() + "/runs/" + itoa(k.id)
	return object{
		"id": k.id, "node_id": nodeID("CheckRun", k.id), "head_sha": k.sha, "name": k.name, "external_id": k.external,
		"url": api + "/check-runs/" + itoa(k.id), "html_url": html, "details_url": cmp.Or(k.details, html),
		"status": k.status, "conclusion": orNull(k.conclusion), "started_at": stamp(k.started),
		"completed_at": stamp(k.completed),
		"output": object{
			"title": orNull(k.title), "summary": orNull(k.summary), "text": orNull(k.text), "annotations_count": 0,
			"annotations_url": api + "/check-runs/" + itoa(k.id) + "/annotations",
		},
		"check_suite": nil, "app": nil, "pull_requests": []any{},
	}
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func (c *call) createStatus() {
	sha, ok := c.commit(c.r.PathValue("sha"))
	if !ok {
		return
	}
	state, _ := c.text("state")
	if !slices.Contains([]string{"pending", "success", "failure", "error"}, state) {
		c.invalid("Status", "state", "invalid")
		return
	}
	context, _ := c.text("context")
	about, _ := c.text("description")
	target, _ := c.text("target_url")
	st := c.setStatus(c.repo, c.user, commitStatus{
		sha: sha, context: cmp.Or(context, "default"), state: state,
		description: about, target: target,
	})
	o := c.to.status(c.repo, st)
	o["creator"] = c.to.user(st.creator)
	writeJSON(c.w, http.StatusCreated, o)
}

// getStatus is the combined status: the worst of the latest of each context, pending if there is none.
func (c *call) getStatus() {
	sha, ok := c.commit(c.r.PathValue("ref"))
	if !ok {
		return
	}
	all := c.repo.latestStatuses(sha)
	is := func(o outcome) bool {
		return slices.ContainsFunc(all, func(st *commitStatus) bool { return st.outcome() == o })
	}
	state := "success"
	switch {
	case is(outcomeBad):
		state = "failure"
	case is(outcomePending), len(all) == 0:
		state = "pending"
	}
	commit := c.to.api + "/repos/" + c.repo.fullName() + "/commits/" + sha
	writeJSON(c.w, http.StatusOK, object{
		"state": state, "sha": sha, "total_count": len(all), "repository": c.to.repo(c.repo), "commit_url": commit,
		"url":      commit + "/status",
		"statuses": objects(page(c, all), func(st *commitStatus) object { return c.to.status(c.repo, st) }),
	})
}

func (l links) status(r *repo, st *commitStatus) object {
	return object{
		"id": st.id, "node_id": nodeID("StatusContext", st.id), "url": l.api + "/repos/" + r.fullName() + "/statuses/" +
			st.sha,
		"avatar_url": l.web + "/_sim/avatar/" + itoa(st.creator.id), "state": st.state,
		"description": orNull(st.description),
		"target_url":  orNull(st.target), "context": st.context, "created_at": stamp(st.created),
		"updated_at": stamp(st.created),
	}
}
