package githubtest

import (
	"encoding/base64"
	"maps"
	"net/http"
	"strings"
	"time"
)

// object is a JSON object in GitHub's form. It contains every field that GitHub always sends.
type object = map[string]any

// origin returns the base URL that the client used, for links in answers.
func origin(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil || r.URL.Scheme == "https" {
		scheme = "https"
	}
	return scheme + "://" + r.Host
}

// links builds the URLs in answers.
type links struct{ web, api string }

func linksOf(r *http.Request) links {
	o := origin(r)
	return links{web: o, api: o + strings.TrimSuffix(APIPath, "/")}
}

func nodeID(kind string, id int64) string {
	return base64.StdEncoding.EncodeToString([]byte(kind + ":" + itoa(id)))
}

func stamp(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format(time.RFC3339)
}

func (l links) user(u *user) object {
	api, kind := l.api+"/users/"+u.login, "User"
	if u.bot {
		kind = "Bot"
	}
	return object{
		"login": u.login, "id": u.id, "node_id": nodeID(kind, u.id), "gravatar_id": "", "type": kind,
		"site_admin": false,
		"avatar_url": l.web + "/_sim/avatar/" + itoa(u.id), "html_url": l.web + "/" + u.login, "url": api,
		"followers_url": api + "/followers", "following_url": api + "/following{/other_user}", "gists_url": api +
			"/gists{/gist_id}",
		"starred_url": api + "/starred{/owner}{/repo}", "subscriptions_url": api + "/subscriptions",
		"organizations_url": api + "/orgs",
		"repos_url":         api + "/repos", "events_url": api + "/events{/privacy}", "received_events_url": api +
			"/received_events",
		"user_view_type": "public",
	}
}

// me returns the answer to GET /user.
func (l links) me(u *user) object {
	o := l.user(u)
	maps.Copy(o, object{
		"name": u.login, "company": nil, "blog": "", "location": nil, "email": nil, "hireable": nil, "bio": nil,
		"public_repos": 0, "public_gists": 0, "followers": 0, "following": 0,
		"created_at": "2020-01-01T00:00:00Z", "updated_at": "2020-01-01T00:00:00Z",
	})
	return o
}

func (l links) label(r *repo, b *label) object {
	var about any
	if b.Description != "" {
		about = b.Description
	}
	return object{
		"id": b.ID, "node_id": nodeID("Label", b.ID), "url": l.api + "/repos/" + r.fullName() + "/labels/" + b.Name,
		"name": b.Name, "color": b.Color, "description": about, "default": false,
	}
}

func (l links) labels(r *repo, names []string) []object {
	all := make([]object, 0, len(names))
	for _, n := range names {
		if b := r.label(n); b != nil {
			all = append(all, l.label(r, b))
		}
	}
	return all
}

func (l links) issue(r *repo, i *issue) object {
	url := l.api + "/repos/" + r.fullName() + "/issues/" + itoa(i.Number)
	o := object{
		"id": i.ID, "node_id": nodeID("Issue", i.ID), "number": i.Number, "title": i.Title, "body": i.Body,
		"state": i.state(), "state_reason": nil, "locked": false, "active_lock_reason": nil,
		"user": l.user(i.Author), "assignee": nil, "assignees": []any{}, "milestone": nil, "comments": len(i.Comments),
		"labels": l.labels(r, i.Labels), "author_association": r.association(i.Author),
		"created_at": stamp(i.Created), "updated_at": stamp(i.Updated), "closed_at": stamp(i.ClosedAt),
		"closed_by": l.orNobody(i.ClosedBy),
		"url":       url, "repository_url": l.api + "/repos/" + r.fullName(), "labels_url": url + "/labels{/name}",
		"comments_url": url + "/comments", "events_url": url + "/events", "timeline_url": url + "/timeline",
		"html_url": l.page(r, i), "performed_via_github_app": nil,
		"reactions": rollup(url, nil),
		"issue_dependencies_summary": object{
			"blocked_by": open(i.blockedBy), "total_blocked_by": len(i.blockedBy),
			"blocking": 0, "total_blocking": 0,
		},
	}
	if subs := r.subIssues(i); len(subs) > 0 {
		o["sub_issues_summary"] = object{
			"total": len(subs), "completed": len(subs) - open(subs),
			"percent_completed": 100 * (len(subs) - open(subs)) / len(subs),
		}
	}
	if i.Pull != nil {
		o["node_id"] = nodeID("PullRequest", i.ID)
		pull := l.api + "/repos/" + r.fullName() + "/pulls/" + itoa(i.Number)
		o["pull_request"] = object{
			"url": pull, "html_url": l.page(r, i), "diff_url": l.page(r, i) + ".diff",
			"patch_url": l.page(r, i) + ".patch", "merged_at": stamp(i.Pull.MergedAt),
		}
	}
	return o
}

func (l links) page(r *repo, i *issue) string {
	if i.Pull != nil {
		return l.web + "/" + r.fullName() + "/pull/" + itoa(i.Number)
	}
	return l.web + "/" + r.fullName() + "/issues/" + itoa(i.Number)
}

func (l links) comment(r *repo, i *issue, c *comment) object {
	url := l.api + "/repos/" + r.fullName() + "/issues/comments/" + itoa(c.ID)
	return object{
		"id": c.ID, "node_id": nodeID("IssueComment", c.ID), "url": url, "html_url": l.page(r, i) + "#issuecomment-" +
			itoa(c.ID),
		"issue_url": l.api + "/repos/" + r.fullName() + "/issues/" + itoa(i.Number), "body": c.Body,
		"user":               l.user(c.Author),
		"author_association": r.association(c.Author), "created_at": stamp(c.Created), "updated_at": stamp(c.Updated),
		"performed_via_github_app": nil, "reactions": rollup(url, c.Reactions),
	}
}

func (l links) event(r *repo, s *store, e Event) object {
	o := object{
		"id": e.ID, "node_id": nodeID("IssueEvent", e.ID), "url": l.api + "/repos/" + r.fullName() + "/issues/events/" +
			itoa(e.ID),
		"actor": l.user(s.user(e.Actor)), "event": e.Event, "commit_id": nil, "commit_url": nil,
		"created_at":               stamp(e.At),
		"performed_via_github_app": nil,
	}
	if e.Event == "renamed" {
		o["rename"] = object{"from": e.From, "to": e.To}
	}
	if e.Event == "merged" {
		o["commit_id"], o["commit_url"] = e.Detail, l.api+"/repos/"+r.fullName()+"/commits/"+e.Detail
	}
	return o
}

// repoLinks are a repository's URL templates, relative to its own URL.
var repoLinks = map[string]string{
	"archive": "/{archive_format}{/ref}", "assignees": "/assignees{/user}", "blobs": "/git/blobs{/sha}",
	"branches":      "/branches{/branch}",
	"collaborators": "/collaborators{/collaborator}", "comments": "/comments{/number}", "commits": "/commits{/sha}",
	"compare": "/compare/{base}...{head}", "contents": "/contents/{+path}", "contributors": "/contributors",
	"deployments": "/deployments", "downloads": "/downloads", "events": "/events", "forks": "/forks",
	"git_commits": "/git/commits{/sha}", "git_refs": "/git/refs{/sha}", "git_tags": "/git/tags{/sha}",
	"hooks":         "/hooks",
	"issue_comment": "/issues/comments{/number}", "issue_events": "/issues/events{/number}",
	"issues": "/issues{/number}",
	"keys":   "/keys{/key_id}", "labels": "/labels{/name}", "languages": "/languages", "merges": "/merges",
	"milestones": "/milestones{/number}", "notifications": "/notifications{?since,all,participating}",
	"pulls":    "/pulls{/number}",
	"releases": "/releases{/id}", "stargazers": "/stargazers", "statuses": "/statuses/{sha}",
	"subscribers":  "/subscribers",
	"subscription": "/subscription", "tags": "/tags", "teams": "/teams", "trees": "/git/trees{/sha}",
}

func (l links) repo(r *repo) object {
	open := 0
	for _, i := range r.Issues {
		if !i.Closed && !i.Deleted && i.MovedTo == "" {
			open++
		}
	}
	url, page := l.api+"/repos/"+r.fullName(), l.web+"/"+r.fullName()
	o := object{
		"id": r.ID, "node_id": nodeID("Repository", r.ID), "name": r.Name, "full_name": r.fullName(),
		"owner":   l.user(r.Owner),
		"private": false, "fork": false, "archived": false, "disabled": false, "description": nil, "homepage": nil,
		"language": nil,
		"license":  nil, "mirror_url": nil, "default_branch": "main", "url": url, "html_url": page,
		"clone_url": page + ".git", "git_url": "git:" + strings.TrimPrefix(page, "http:") + ".git",
		"ssh_url": "git@localhost:" + r.fullName() + ".git", "svn_url": page,
		"forks": 0, "forks_count": 0, "stargazers_count": 0, "watchers": 0, "watchers_count": 0, "subscribers_count": 0,
		"network_count": 0, "size": 0, "open_issues": open, "open_issues_count": open,
		"has_issues": true, "has_projects": false, "has_wiki": false, "has_pages": false, "has_discussions": false,
		"has_downloads": false,
		"created_at":    stamp(r.Created), "updated_at": stamp(r.Created), "pushed_at": stamp(r.Created),
	}
	for name, tail := range repoLinks {
		o[name+"_url"] = url + tail
	}
	return o
}

// minimalRepo renders a repository without the counters and times that issues and pushes change.
func (l links) minimalRepo(r *repo) object {
	o := l.repo(r)
	for _, name := range []string{"open_issues", "open_issues_count", "updated_at", "pushed_at", "size"} {
		delete(o, name)
	}
	return o
}

// pull renders a pull request in the short form used in lists.
func (l links) pull(r *repo, i *issue) object {
	url, page := l.api+"/repos/"+r.fullName()+"/pulls/"+itoa(i.Number), l.page(r, i)
	about := l.issue(r, i)
	side := func(ref, sha string) object {
		return object{
			"label": r.Owner.login + ":" + ref, "ref": ref, "sha": sha, "user": l.user(r.Owner),
			"repo": l.repo(r),
		}
	}
	o := object{
		"id": i.ID, "node_id": nodeID("PullRequest", i.ID), "number": i.Number, "title": i.Title, "body": i.Body,
		"state":  i.state(),
		"locked": false, "draft": i.Pull.Draft, "user": about["user"], "labels": about["labels"], "milestone": nil,
		"assignee": nil, "assignees": []any{},
		"created_at": about["created_at"], "updated_at": about["updated_at"], "closed_at": about["closed_at"],
		"merged_at":        stamp(i.Pull.MergedAt),
		"merge_commit_sha": orNull(i.Pull.MergeSHA), "author_association": about["author_association"],
		"auto_merge": nil,
		"url":        url, "html_url": page, "diff_url": page + ".diff", "patch_url": page + ".patch",
		"issue_url":   about["url"],
		"commits_url": url + "/commits", "review_comments_url": url + "/comments", "review_comment_url": l.api +
			"/repos/" + r.fullName() + "/pulls/comments{/number}",
		"comments_url": about["comments_url"], "statuses_url": l.api + "/repos/" + r.fullName() + "/statuses/" +
			i.Pull.HeadSHA,
		"head": side(i.Head, i.Pull.HeadSHA), "base": side(i.Base, i.Pull.BaseSHA),
		"requested_reviewers": []any{}, "requested_teams": []any{}, "active_lock_reason": nil,
	}
	to := map[string]string{
		"self": url, "html": page, "issue": about["url"].(string), "comments": about["comments_url"].(string),
		"commits":         url + "/commits",
		"review_comments": url + "/comments", "review_comment": o["review_comment_url"].(string),
		"statuses": o["statuses_url"].(string),
	}
	hrefs := object{}
	for name, href := range to {
		hrefs[name] = object{"href": href}
	}
	o["_links"] = hrefs
	return o
}

// addMerge adds the fields of the long form. Before the test merge has run, mergeable is null and mergeable_state is
// unknown.
func (l links) addMerge(o object, i *issue) {
	inline := 0
	for _, v := range i.Pull.Reviews {
		inline += len(v.Comments)
	}
	maps.Copy(o, object{
		"merged": !i.Pull.MergedAt.IsZero(), "merged_by": l.orNobody(i.Pull.MergedBy),
		"mergeable": nil, "rebaseable": nil, "mergeable_state": "unknown", "comments": len(i.Comments),
		"review_comments":       inline,
		"maintainer_can_modify": false, "commits": 1, "additions": 0, "deletions": 0, "changed_files": 0,
	})
}

// orNobody renders a user, or null for nil.
func (l links) orNobody(u *user) any {
	if u == nil {
		return nil
	}
	return l.user(u)
}
