package githubtest

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
)

// GraphQLPath is where GraphQL is asked, below the server's address: next to APIPath, as on a GitHub Enterprise Server.
const GraphQLPath = "/api/graphql"

// readyMutation is the only thing that GraphQL is needed for: REST cannot end a draft. The id stands in the text or in a
// variable, or the whole input is a variable.
var readyMutation = regexp.MustCompile(`^mutation ?(?:\w+ ?)?(?:\( ?\$(\w+) ?: ?(?:ID|MarkPullRequestReadyForReviewInput)! ?\))? ?` +
	`\{ ?markPullRequestReadyForReview ?\( ?input ?: ?(?:\$(\w+)|\{ ?pullRequestId ?: ?(?:"([^"\\]+)"|\$(\w+)) ?\}) ?\) ?` +
	`\{ ?pullRequest ?\{ ?isDraft ?\} ?\} ?\}$`)

var blanks = regexp.MustCompile(`[\s,]+`)

func (c *call) graphQL() {
	query, _ := c.text("query")
	var variables map[string]json.RawMessage
	_ = json.Unmarshal(c.body["variables"], &variables)
	m := readyMutation.FindStringSubmatch(strings.TrimSpace(blanks.ReplaceAllString(query, " ")))
	if m == nil {
		c.graphQLError(nil, "", "The stand-in understands one thing: mutation { markPullRequestReadyForReview(input: {pullRequestId: \"…\"}) { pullRequest { isDraft } } }")
		return
	}
	id := m[3]
	for _, name := range []string{m[2], m[4]} {
		if name == "" {
			continue
		}
		if name != m[1] {
			c.graphQLError(nil, "", "Variable $"+name+" is used but not declared")
			return
		}
		id = readID(variables[name])
	}
	r, i := c.pullByNode(id)
	if i == nil {
		c.graphQLError(object{"markPullRequestReadyForReview": nil}, "NOT_FOUND", "Could not resolve to a node with the global id of '"+id+"'")
		return
	}
	if i.author != c.user && !r.mayWrite(c.user) {
		c.graphQLError(object{"markPullRequestReadyForReview": nil}, "FORBIDDEN", c.user.login+" does not have the correct permissions to execute `MarkPullRequestReadyForReview`")
		return
	}
	c.ready(r, i, c.user)
	writeJSON(c.w, http.StatusOK, object{"data": object{"markPullRequestReadyForReview": object{"pullRequest": object{"isDraft": i.pull.draft}}}})
}

// readID reads a variable that is an id or the whole input.
func readID(raw json.RawMessage) (id string) {
	var input struct{ PullRequestID string }
	if json.Unmarshal(raw, &id) != nil && json.Unmarshal(raw, &input) == nil {
		id = input.PullRequestID
	}
	return id
}

func (c *call) pullByNode(id string) (*repo, *issue) {
	for _, r := range c.repos {
		for _, i := range r.issues {
			if i.pull != nil && r.movedTo == "" && nodeID("PullRequest", i.id) == id {
				return r, i
			}
		}
	}
	return nil, nil
}

// graphQLError answers as GraphQL does: 200, and what was wrong in the body. An error of the query has no data at all.
func (c *call) graphQLError(data object, kind, message string) {
	e := object{"message": message}
	if kind != "" {
		e["type"], e["path"] = kind, []string{"markPullRequestReadyForReview"}
	}
	answer := object{"errors": []object{e}}
	if data != nil {
		answer["data"] = data
	}
	writeJSON(c.w, http.StatusOK, answer)
}
