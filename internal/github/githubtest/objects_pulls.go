package githubtest

import "maps"

// pull is a pull request as it is in lists.
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

// addMerge adds what only the single form has, as long as nobody knows whether it can be merged.
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

// orNobody is null for nobody.
func (l links) orNobody(u *user) any {
	if u == nil {
		return nil
	}
	return l.user(u)
}
