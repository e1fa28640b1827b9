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
		all = slices.DeleteFunc(slices.Clone(c.repo.Checks), func(k *checkRun) bool { return k.SHA != sha })
	}
	all = slices.DeleteFunc(all, func(k *checkRun) bool {
		return q.Get("check_name") != "" && q.Get("check_name") != k.Name || q.Get("status") != "" &&
			q.Get("status") != k.Status
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
	k := &checkRun{SHA: sha, Name: name, Status: checkQueued, Started: c.now()}
	if !c.readCheck(k) {
		return
	}
	k.ID = c.id()
	c.repo.Checks = append(c.repo.Checks, k)
	writeJSON(c.w, http.StatusCreated, c.to.check(c.repo, k))
}

func (c *call) editCheck() {
	id, _ := strconv.ParseInt(c.r.PathValue("id"), 10, 64)
	at := slices.IndexFunc(c.repo.Checks, func(k *checkRun) bool { return k.ID == id })
	if at < 0 {
		c.fail(http.StatusNotFound, "Not Found")
		return
	}
	changed := *c.repo.Checks[at]
	if name, ok := c.text("name"); ok && name != "" {
		changed.Name = name
	}
	if c.readCheck(&changed) {
		*c.repo.Checks[at] = changed
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
		k.Status, k.Conclusion, k.Completed = status, conclusion, time.Time{}
	}
	if status == checkCompleted {
		k.Completed = c.now()
		if at, ok := c.text("completed_at"); ok {
			k.Completed, _ = time.Parse(time.RFC3339, at)
		}
	}
	if v, ok := c.text("details_url"); ok {
		k.Details = v
	}
	if v, ok := c.text("external_id"); ok {
		k.External = v
	}
	var out struct{ Title, Summary, Text string }
	if json.Unmarshal(c.body["output"], &out) == nil {
		k.Title, k.Summary, k.Text = out.Title, out.Summary, out.Text
	}
	return true
}

func (l links) check(r *repo, k *checkRun) object {
	api := l.api + "/repos/" + r.fullName()
	html := l.web + "/" + r.fullName() + "/runs/" + itoa(k.ID)
	return object{
		"id": k.ID, "node_id": nodeID("CheckRun", k.ID), "head_sha": k.SHA, "name": k.Name, "external_id": k.External,
		"url": api + "/check-runs/" + itoa(k.ID), "html_url": html, "details_url": cmp.Or(k.Details, html),
		"status": k.Status, "conclusion": orNull(k.Conclusion), "started_at": stamp(k.Started),
		"completed_at": stamp(k.Completed),
		"output": object{
			"title": orNull(k.Title), "summary": orNull(k.Summary), "text": orNull(k.Text), "annotations_count": 0,
			"annotations_url": api + "/check-runs/" + itoa(k.ID) + "/annotations",
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
		SHA: sha, Context: cmp.Or(context, "default"), State: state,
		Description: about, Target: target,
	})
	o := c.to.status(c.repo, st)
	o["creator"] = c.to.user(st.Creator)
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
		"id": st.ID, "node_id": nodeID("StatusContext", st.ID), "url": l.api + "/repos/" + r.fullName() + "/statuses/" +
			st.SHA,
		"avatar_url": l.web + "/_sim/avatar/" + itoa(st.Creator.id), "state": st.State,
		"description": orNull(st.Description),
		"target_url":  orNull(st.Target), "context": st.Context, "created_at": stamp(st.Created),
		"updated_at": stamp(st.Created),
	}
}
