package githubtest

import (
	"net/http"
	"strings"
)

// branchOf is the branch that the path names, "" if it names no branch.
func (c *call) branchOf() string {
	branch, ok := strings.CutPrefix(c.r.PathValue("ref"), "heads/")
	if !ok {
		return ""
	}
	return branch
}

func (c *call) getRef() {
	branch := c.branchOf()
	sha, ok := c.tip(c.repo, branch)
	if !ok {
		c.fail(http.StatusNotFound, "Not Found")
		return
	}
	api := c.to.api + "/repos/" + c.repo.fullName() + "/git/"
	writeJSON(c.w, http.StatusOK, object{
		"ref": "refs/heads/" + branch, "node_id": nodeID("Ref", c.repo.ID), "url": api + "refs/heads/" + branch,
		"object": object{"type": "commit", "sha": sha, "url": api + "commits/" + sha},
	})
}

func (c *call) deleteRef() {
	branch := c.branchOf()
	if _, ok := c.tip(c.repo, branch); !ok {
		c.fail(http.StatusUnprocessableEntity, "Reference does not exist")
		return
	}
	if branch == mainBranch {
		c.fail(http.StatusUnprocessableEntity, "Cannot delete the default branch")
		return
	}
	if c.opts.DataDir != "" {
		if _, err := git(c.bare(c.repo.fullName()), nil, "update-ref", "-d", "refs/heads/"+branch); err != nil {
			c.fail(http.StatusInternalServerError, err.Error())
			return
		}
	}
	delete(c.repo.Branches, branch)
	c.followHeads(c.repo, c.user)
	c.w.WriteHeader(http.StatusNoContent)
}
