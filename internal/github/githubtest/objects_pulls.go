package githubtest

import "maps"

// pull is a pull request as it is in lists.
func (l links) pull(r *repo, i *issue) object {
	url, page := l.api+"/repos/"+r.fullName()+"/pulls/"+itoa(i.number), l.page(r, i)
	about := l.issue(r, i)
	side := func(ref, sha string) object {
		return object{
			"label": r.owner.login + ":" + ref, "ref": ref, "sha": sha, "user": l.user(r.owner),
			"repo": l.repo(r),
		}
	}
	o := object{
		"id": i.id, "node_id": nodeID("PullRequest", i.id), "number": i.number, "title": i.title, "body": i.body,
		"state":  i.state(),
		"locked": false, "draft": i.pull.draft, "user": about["user"], "labels": about["labels"], "milestone": nil,
		"assignee": nil, "assignees": []any{},
		"created_at": about["created_at"], "updated_at": about["updated_at"], "closed_at": about["closed_at"],
		"merged_at":        stamp(i.pull.mergedAt),
		"merge_commit_sha": orNull(i.pull.mergeSHA), "author_association": about["author_association"],
		"auto_merge": nil,
		"url":        url, "html_url": page, "diff_url": page + ".diff", "patch_url": page + ".patch",
		"issue_url":   about["url"],
		"commits_url": url + "/commits", "review_comments_url": url + "/comments", "review_comment_url": l.api +
			"/repos/" + r.fullName() + "/pulls/comments{/number}",
		"comments_url": about["comments_url"], "statuses_url": l.api + "/repos/" + r.fullName() + "/statuses/" +
			i.pull.headSHA,
		"head": side(i.head, i.pull.headSHA), "base": side(i.base, i.pull.baseSHA),
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
	for _, v := range i.pull.reviews {
		inline += len(v.comments)
	}
	maps.Copy(o, object{
		"merged": !i.pull.mergedAt.IsZero(), "merged_by": l.orNobody(i.pull.mergedBy),
		"mergeable": nil, "rebaseable": nil, "mergeable_state": "unknown", "comments": len(i.comments),
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
