package githubtest

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"time"
)

var fullSHA = regexp.MustCompile(`^[0-9a-f]{40}$`)

// commit returns the SHA of a commit. ref is a full SHA or the name of a branch.
func (c *call) commit(ref string) (string, reply) {
	if sha, there := c.tip(c.repo, ref); there {
		return sha, reply{}
	}
	known := fullSHA.MatchString(ref)
	if known && c.opts.DataDir != "" {
		_, err := git(c.bare(c.repo.fullName()), nil, "cat-file", "-e", ref+"^{commit}")
		known = err == nil
	}
	if !known {
		return "", unprocessable("No commit found for SHA: " + ref)
	}
	return ref, reply{}
}

func listChecks(c *call) reply {
	q := c.r.URL.Query()
	all := c.repo.latestChecks(c.sha)
	if q.Get("filter") == "all" {
		all = slices.DeleteFunc(slices.Clone(c.repo.Checks), func(k *checkRun) bool { return k.SHA != c.sha })
	}
	all = slices.DeleteFunc(all, func(k *checkRun) bool {
		name, status := q.Get("check_name"), q.Get("status")
		return name != "" && name != k.Name || status != "" && status != k.Status
	})
	runs := objects(c, all, func(k *checkRun) object { return c.to.check(c.repo, k) })
	return ok(object{"total_count": len(all), "check_runs": runs})
}

func createCheck(c *call) reply {
	name := c.field("name")
	if name == "" {
		return invalid("CheckRun", "name", "missing_field")
	}
	sha, no := c.commit(c.field("head_sha"))
	if no.status != 0 {
		return no
	}
	k := &checkRun{SHA: sha, Name: name, Status: checkQueued, Started: c.now()}
	if no := c.readCheck(k); no.status != 0 {
		return no
	}
	k.ID = c.id()
	c.repo.Checks = append(c.repo.Checks, k)
	return created(c.to.check(c.repo, k))
}

func editCheck(c *call) reply {
	at := slices.IndexFunc(c.repo.Checks, func(k *checkRun) bool { return itoa(k.ID) == c.r.PathValue("id") })
	if at < 0 {
		return notFound
	}
	changed := *c.repo.Checks[at]
	changed.Name = cmp.Or(c.field("name"), changed.Name)
	if no := c.readCheck(&changed); no.status != 0 {
		return no
	}
	*c.repo.Checks[at] = changed
	return ok(c.to.check(c.repo, &changed))
}

// conclusions lists the conclusions that a client may set.
var conclusions = []string{"action_required", "cancelled", "failure", "neutral", "success", "skipped", "timed_out"}

// readCheck sets the fields of a check run from a request that creates or changes it.
func (c *call) readCheck(k *checkRun) reply {
	status, conclusion := c.field("status"), c.field("conclusion")
	if conclusion != "" {
		status = checkCompleted
	}
	switch {
	case !slices.Contains([]string{"", checkQueued, checkInProgress, checkCompleted}, status):
		return invalid("CheckRun", "status", "invalid")
	case status == checkCompleted && !slices.Contains(conclusions, conclusion):
		return invalid("CheckRun", "conclusion", "invalid")
	}
	if status != "" {
		k.Status, k.Conclusion, k.Completed = status, conclusion, time.Time{}
	}
	if status == checkCompleted {
		k.Completed = c.now()
		if at, given := c.text("completed_at"); given {
			k.Completed, _ = time.Parse(time.RFC3339, at)
		}
	}
	for name, to := range map[string]*string{"details_url": &k.Details, "external_id": &k.External} {
		if v, given := c.text(name); given {
			*to = v
		}
	}
	var out struct{ Title, Summary, Text string }
	if json.Unmarshal(c.body["output"], &out) == nil {
		k.Title, k.Summary, k.Text = out.Title, out.Summary, out.Text
	}
	return reply{}
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

func createStatus(c *call) reply {
	state := c.field("state")
	if !slices.Contains([]string{"pending", "success", "failure", "error"}, state) {
		return invalid("Status", "state", "invalid")
	}
	st := c.setStatus(c.repo, c.user, commitStatus{
		SHA: c.sha, Context: cmp.Or(c.field("context"), "default"), State: state, Description: c.field("description"),
		Target: c.field("target_url"),
	})
	o := c.to.status(c.repo, st)
	o["creator"] = c.to.user(st.Creator)
	return created(o)
}

// getStatus answers with the combined status: the worst of the latest statuses of all contexts, or pending if the
// commit does not have a status.
func getStatus(c *call) reply {
	all := c.repo.latestStatuses(c.sha)
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
	commit := c.to.api + "/repos/" + c.repo.fullName() + "/commits/" + c.sha
	return ok(object{
		"state": state, "sha": c.sha, "total_count": len(all), "commit_url": commit,
		"repository": c.to.minimalRepo(c.repo),
		"url":        commit + "/status",
		"statuses":   objects(c, all, func(st *commitStatus) object { return c.to.status(c.repo, st) }),
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
