package github

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"retake/internal/github/gate"
)

// bundle is what one request of GraphQL does to an issue, in this order. Only named labels come on or go off,
// so that no label is lost that somebody else touches at the same moment.
type bundle struct {
	on   string   // label that the issue lacks; empty: none
	off  []string // labels of ours, as they are called today, that go off where they are on
	mark marker
	text string   // of our comment, below the marker; empty: no comment
	edit *comment // that is edited; nil: a new one
}

// graphQLRest is for how long REST does everything after GraphQL has failed.
const graphQLRest = 10 * time.Minute

// labelsWanted are the labels of an issue that are read back: GitHub allows 100.
const labelsWanted = `labelable { labels(first: 100) { nodes { name } } }`

// mutationFields are the fields of a request, by the name of their variable and of their result.
var mutationFields = map[string]struct{ input, field string }{
	"on":   {"AddLabelsToLabelableInput", "addLabelsToLabelable(input: $on) { " + labelsWanted + " }"},
	"off":  {"RemoveLabelsFromLabelableInput", "removeLabelsFromLabelable(input: $off) { " + labelsWanted + " }"},
	"post": {"AddCommentInput", "addComment(input: $post) { commentEdge { node { id body } } }"},
	"edit": {"UpdateIssueCommentInput", "updateIssueComment(input: $edit) { issueComment { id body } }"},
}

// mutationAnswer is what a request of ours is answered.
type mutationAnswer struct {
	Data   map[string]json.RawMessage `json:"data"`
	Errors []struct{ Type, Message string }
}

// labelableAnswer is the result of a change of labels.
type labelableAnswer struct {
	Labelable *struct {
		Labels struct{ Nodes []struct{ Name string } }
	}
}

// mutate does several changes in one request, and returns the issue as it is then: what it still lacks is left
// to the calls of REST that follow, which do nothing for what is done. So a request that is refused, or carried
// out in part, costs nothing but time. It is not sent for a single change, nor for a while after GraphQL has
// failed. An error means that nobody knows what was done.
func (c *Client) mutate(ctx context.Context, l gate.Lane, t thread, todo bundle) (thread, error) {
	if c.restAlone() {
		return t, nil
	}
	input, body, err := c.mutationInput(ctx, l, t, todo)
	if err != nil || len(input) < 2 {
		return t, err
	}
	var answer mutationAnswer
	r, err := c.lanes[l].NewRequest(http.MethodPost, c.graphql, map[string]any{
		"query":     mutationText(input),
		"variables": input,
	})
	if err == nil {
		_, err = c.lanes[l].Do(ctx, r, &answer)
	}
	if err = normalize(err); err != nil {
		k := kindOf(err)
		resource, _ := gate.CutReserved(detail(err).Resource)
		if k == KindRateLimited && resource == gate.GraphQL {
			return t, nil // nothing was done, and REST has points of its own
		}
		if k != KindRateLimited && ctx.Err() == nil && !errors.Is(err, ErrNotSent) {
			c.avoidGraphQL(t, detail(err).Detail())
			if k != KindTransient {
				return t, nil // refused as a whole
			}
		}
		return t, err
	}
	for _, e := range answer.Errors {
		if strings.Contains(strings.ToLower(e.Message), "submitted too quickly") {
			return t, transient("a comment on "+t.key()+": "+clip(plain(e.Message), messageLimit), nil)
		}
		c.log.Info("a change of GraphQL is left to REST", zap.String("issue", t.key()),
			zap.String("reason", clip(plain(e.Type+": "+e.Message), messageLimit)))
	}
	if len(answer.Data) == 0 {
		c.avoidGraphQL(t, "it carries out nothing")
	}
	return t.changed(todo, body, answer.Data), nil
}

// restAlone reports whether GraphQL has failed a while ago.
func (c *Client) restAlone() bool {
	until := c.restUntil.Load()
	return until != nil && time.Now().Before(*until)
}

// avoidGraphQL leaves everything to REST for a while.
func (c *Client) avoidGraphQL(t thread, why string) {
	until := time.Now().Add(graphQLRest)
	c.restUntil.Store(&until)
	c.log.Warn("GraphQL fails: REST does its work for a while", zap.String("issue", t.key()),
		zap.Duration("for", graphQLRest), zap.String("reason", clip(plain(why), messageLimit)))
}

// mutationInput is the input of each field, without those that have nothing to do, and the whole text of the
// comment. It is empty if an id is not known.
func (c *Client) mutationInput(ctx context.Context, l gate.Lane, t thread,
	todo bundle,
) (input map[string]map[string]any, body string, err error) {
	input = map[string]map[string]any{}
	if todo.on != "" && !t.issue.Has(todo.on) {
		// Asked for each time, which costs nothing while the label stays what it is: the id of a label that was
		// renamed or deleted must not be used.
		label, _, err := c.lanes[l].Issues.GetLabel(ctx, t.owner, t.repo, todo.on)
		if err = unlessGone(err); err != nil {
			return nil, "", err
		}
		if label.GetNodeID() == "" {
			return nil, "", nil
		}
		input["on"] = map[string]any{"labelableId": t.issue.node, "labelIds": []string{label.GetNodeID()}}
	}
	var off []string
	for _, label := range todo.off {
		for _, name := range t.issue.named(label) {
			off = append(off, t.issue.labelNodes[name])
		}
	}
	if len(off) > 0 {
		input["off"] = map[string]any{"labelableId": t.issue.node, "labelIds": off}
	}
	if todo.text != "" {
		if body, err = withMarker(todo.mark, todo.text); err != nil {
			return nil, "", err
		}
	}
	switch {
	case body == "" || todo.edit == nil && len(t.ownComments(todo.mark)) > 0 || todo.edit != nil &&
		sameText(body, todo.edit.body):
	case todo.edit != nil:
		input["edit"] = map[string]any{"id": todo.edit.node, "body": body}
	default:
		input["post"] = map[string]any{"subjectId": t.issue.node, "body": body}
	}
	if t.issue.node == "" || slices.Contains(off, "") || todo.edit != nil && todo.edit.node == "" {
		return nil, "", nil
	}
	return input, body, nil
}

// mutationText is a request with those fields, in the order in which they are to be carried out.
func mutationText(input map[string]map[string]any) string {
	var declared, fields []string
	for _, name := range []string{"on", "off", "post", "edit"} {
		if input[name] != nil {
			f := mutationFields[name]
			declared = append(declared, fmt.Sprintf("$%s: %s!", name, f.input))
			fields = append(fields, name+": "+f.field)
		}
	}
	return "mutation(" + strings.Join(declared, ", ") + ") { " + strings.Join(fields, " ") + " }"
}

// changed is the issue after those changes that were carried out. What others have put on meanwhile is not
// among its labels: it is not ours to take off.
func (t thread) changed(todo bundle, body string, done map[string]json.RawMessage) thread {
	for _, field := range []string{"on", "off"} {
		var answer *labelableAnswer
		if json.Unmarshal(done[field], &answer) != nil || answer == nil || answer.Labelable == nil {
			continue
		}
		has := func(label string) bool {
			return slices.ContainsFunc(answer.Labelable.Labels.Nodes,
				func(n struct{ Name string }) bool { return strings.EqualFold(n.Name, label) })
		}
		t.issue.Labels = slices.DeleteFunc(slices.Clone(t.issue.Labels), func(l string) bool { return !has(l) })
		if field == "on" && has(todo.on) {
			t.issue.Labels = append(t.issue.Labels, todo.on)
		}
	}
	written := func(field string) bool { return len(done[field]) > 0 && string(done[field]) != "null" }
	t.comments = slices.Clone(t.comments)
	switch {
	case written("post"):
		mark := todo.mark
		t.comments = append(t.comments, comment{author: t.self, body: body, mark: &mark})
	case written("edit"):
		todo.edit.body = body
	}
	return t
}
