package tracker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"retake/internal/github/api"
	"retake/internal/github/gate"
	"retake/internal/github/prose"
)

// Bundle lists the changes of one GraphQL request to an issue, in this order. It adds and removes only named labels, so
// it does not undo changes that other people make to labels at the same time.
type Bundle struct {
	On   string   // label to add, or empty
	Off  []string // our labels to remove, by their current names
	Mark Marker
	Text string   // text of our comment, below the marker; empty for no comment
	Edit *Comment // comment to edit; nil creates a new one
}

// graphQLRest is the length of the period after a failure of GraphQL in which only REST is used.
const graphQLRest = 10 * time.Minute

// labelsWanted selects the labels of an issue to read back. GitHub allows 100.
const labelsWanted = `labelable { labels(first: 100) { nodes { name } } }`

// mutationFields are the fields of a request, by the name of their variable and of their result.
var mutationFields = map[string]struct{ input, field string }{
	"on":   {"AddLabelsToLabelableInput", "addLabelsToLabelable(input: $on) { " + labelsWanted + " }"},
	"off":  {"RemoveLabelsFromLabelableInput", "removeLabelsFromLabelable(input: $off) { " + labelsWanted + " }"},
	"post": {"AddCommentInput", "addComment(input: $post) { commentEdge { node { id body } } }"},
	"edit": {"UpdateIssueCommentInput", "updateIssueComment(input: $edit) { issueComment { id body } }"},
}

// mutationAnswer is the answer to a mutation.
type mutationAnswer struct {
	Data   map[string]json.RawMessage `json:"data"`
	Errors []struct{ Type, Message string }
}

// labelableAnswer is the result of a change to labels.
type labelableAnswer struct {
	Labelable *struct {
		Labels struct{ Nodes []struct{ Name string } }
	}
}

// Mutate makes several changes in one request, and returns the changed issue. Later REST calls make the changes that
// are still missing and skip the others, so a refused or partial request costs only time. Mutate does not send a
// request for a single change, or for some time after GraphQL has failed. An error means that the result is unknown.
func (c *Writer) Mutate(ctx context.Context, l gate.Lane, t Thread, todo Bundle) (Thread, error) {
	if c.RestAlone() {
		return t, nil
	}
	input, body, err := c.mutationInput(ctx, l, t, todo)
	if err != nil || len(input) < 2 {
		return t, err
	}
	var answer mutationAnswer
	if err := c.conn.Query(ctx, l, mutationText(input), input, &answer); err != nil {
		k := api.KindOf(err)
		resource, _ := gate.CutReserved(api.Detail(err).Resource)
		if k == api.KindRateLimited && resource == gate.GraphQL {
			return t, nil // the issue is unchanged, and REST has a separate budget
		}
		if k != api.KindRateLimited && ctx.Err() == nil && !errors.Is(err, api.ErrNotSent) {
			c.AvoidGraphQL(t, api.Detail(err).Detail())
			if k != api.KindTransient {
				return t, nil // refused as a whole
			}
		}
		return t, err
	}
	for _, e := range answer.Errors {
		if strings.Contains(strings.ToLower(e.Message), "submitted too quickly") {
			return t, api.Transient("a comment on "+t.Key()+": "+prose.Clip(prose.Printable(e.Message),
				api.MessageLimit), nil)
		}
		c.conn.Log.Info("GraphQL change refused; using REST", zap.String("issue", t.Key()),
			zap.String("reason", prose.Clip(prose.Printable(e.Type+": "+e.Message), api.MessageLimit)))
	}
	if len(answer.Data) == 0 {
		c.AvoidGraphQL(t, "it changes nothing")
	}
	return t.changed(todo, body, answer.Data), nil
}

// RestAlone reports whether GraphQL has failed recently, so that only REST is used.
func (c *Writer) RestAlone() bool {
	until := c.restUntil.Load()
	return until != nil && time.Now().Before(*until)
}

// AvoidGraphQL restricts the Writer to REST for a while.
func (c *Writer) AvoidGraphQL(t Thread, why string) {
	until := time.Now().Add(graphQLRest)
	c.restUntil.Store(&until)
	c.conn.Log.Warn("GraphQL failed; using REST for a while", zap.String("issue", t.Key()),
		zap.Duration("for", graphQLRest), zap.String("reason", prose.Clip(prose.Printable(why), api.MessageLimit)))
}

// mutationInput returns the input of each field with a change, and the whole text of the comment. It is empty if an id
// is unknown.
func (c *Writer) mutationInput(ctx context.Context, l gate.Lane, t Thread,
	todo Bundle,
) (input map[string]map[string]any, body string, err error) {
	input = map[string]map[string]any{}
	if todo.On != "" && !t.Issue.Has(todo.On) {
		// Read the label each time, because the id of a renamed or deleted label must not be used. The request is free
		// while the label is unchanged.
		label, _, err := c.conn.Lane(l).Issues.GetLabel(ctx, t.Owner, t.Repo, todo.On)
		if err = api.UnlessGone(err); err != nil {
			return nil, "", err
		}
		if label.GetNodeID() == "" {
			return nil, "", nil
		}
		input["on"] = map[string]any{"labelableId": t.Issue.Node, "labelIds": []string{label.GetNodeID()}}
	}
	var off []string
	for _, label := range todo.Off {
		for _, name := range t.Issue.Named(label) {
			off = append(off, t.Issue.labelNodes[name])
		}
	}
	if len(off) > 0 {
		input["off"] = map[string]any{"labelableId": t.Issue.Node, "labelIds": off}
	}
	if todo.Text != "" {
		if body, err = WithMarker(todo.Mark, todo.Text); err != nil {
			return nil, "", err
		}
	}
	switch {
	case body == "" || todo.Edit == nil && len(t.OwnComments(todo.Mark)) > 0 || todo.Edit != nil &&
		SameText(body, todo.Edit.Body):
	case todo.Edit != nil:
		input["edit"] = map[string]any{"id": todo.Edit.node, "body": body}
	default:
		input["post"] = map[string]any{"subjectId": t.Issue.Node, "body": body}
	}
	if t.Issue.Node == "" || slices.Contains(off, "") || todo.Edit != nil && todo.Edit.node == "" {
		return nil, "", nil
	}
	return input, body, nil
}

// mutationText returns the text of a request with these fields, in the order of execution.
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

// changed returns the issue after the changes that were carried out. Labels that others have added since are missing
// from it, because we must not remove them.
func (t Thread) changed(todo Bundle, body string, done map[string]json.RawMessage) Thread {
	for _, field := range []string{"on", "off"} {
		var answer *labelableAnswer
		if json.Unmarshal(done[field], &answer) != nil || answer == nil || answer.Labelable == nil {
			continue
		}
		has := func(label string) bool {
			return slices.ContainsFunc(answer.Labelable.Labels.Nodes,
				func(n struct{ Name string }) bool { return strings.EqualFold(n.Name, label) })
		}
		t.Issue.Labels = slices.DeleteFunc(slices.Clone(t.Issue.Labels), func(l string) bool { return !has(l) })
		if field == "on" && has(todo.On) {
			t.Issue.Labels = append(t.Issue.Labels, todo.On)
		}
	}
	written := func(field string) bool { return len(done[field]) > 0 && string(done[field]) != "null" }
	t.Comments = slices.Clone(t.Comments)
	switch {
	case written("post"):
		mark := todo.Mark
		t.Comments = append(t.Comments, Comment{Author: t.Self, Body: body, Mark: &mark})
	case written("edit"):
		todo.Edit.Body = body
	}
	return t
}
