package tracker

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"retake/internal/github/api"
	"retake/internal/github/gate"
	"retake/internal/github/prose"
)

// Bundle lists changes to an issue that one GraphQL request makes, in this order. The request adds and removes single
// labels instead of replacing them, so it does not undo label changes that people make at the same time.
type Bundle struct {
	On   string   // label to add, or empty
	Off  []string // our labels to remove, by their current names
	Mark Marker
	Text string   // text of our comment, below the marker; empty for no comment
	Edit *Comment // comment to edit; nil creates a new one
}

// graphQLRest is the time for which the Writer uses only REST after GraphQL has failed.
const graphQLRest = 10 * time.Minute

// labelsWanted selects an issue's labels in a mutation's result. An issue has at most 100.
const labelsWanted = `labelable { labels(first: 100) { nodes { name } } }`

// issueMutations are the mutations of a Bundle, in the order of execution.
var issueMutations = []api.Mutation{
	{Name: "on", Call: "addLabelsToLabelable", Want: "{ " + labelsWanted + " }"},
	{Name: "off", Call: "removeLabelsFromLabelable", Want: "{ " + labelsWanted + " }"},
	{Name: "post", Call: "addComment", Want: "{ commentEdge { node { id body } } }"},
	{Name: "edit", Call: "updateIssueComment", Want: "{ issueComment { id body } }"},
}

// labelableAnswer is the result of a change to labels.
type labelableAnswer struct {
	Labelable *struct {
		Labels struct{ Nodes []struct{ Name string } }
	}
}

// Mutate makes changes through GraphQL, and returns the issue with the changes that succeeded. One request may contain
// the changes to several issues. Callers then make the missing changes through REST, so a refused or partial request
// only costs time. After a GraphQL failure, Mutate does not send requests until graphQLRest has passed. An error means
// that the result is unknown.
func (c *Writer) Mutate(ctx context.Context, l gate.Lane, t Thread, todo Bundle) (Thread, error) {
	if c.RestAlone() {
		return t, nil
	}
	mutations, body, err := c.mutations(ctx, l, t, todo)
	if err != nil || len(mutations) == 0 {
		return t, err
	}
	done, err := c.Send(ctx, l, t, mutations)
	return t.changed(todo, body, done), err
}

// Send sends mutations and returns the results of the successful ones by name. The caller must make the other changes
// through REST.
func (c *Writer) Send(ctx context.Context, l gate.Lane, t Thread, mutations []api.Mutation) (
	done map[string]json.RawMessage, err error,
) {
	answer, err := c.conn.Change(ctx, l, mutations)
	if err != nil {
		k := api.KindOf(err)
		resource, _ := gate.CutReserved(api.Detail(err).Resource)
		if k == api.KindRateLimited && resource == gate.GraphQL {
			return nil, nil // GitHub has changed nothing, and REST has a separate limit
		}
		if k != api.KindRateLimited && ctx.Err() == nil && !errors.Is(err, api.ErrNotSent) {
			c.AvoidGraphQL(t, api.Detail(err).Detail())
			if k != api.KindTransient {
				return nil, nil // GitHub refused the whole request
			}
		}
		return nil, err
	}
	for _, e := range answer.Errors {
		if strings.Contains(strings.ToLower(e.Message), "submitted too quickly") {
			return nil, api.Transient("a change to "+t.Key()+": "+prose.Clip(prose.Printable(e.Message),
				api.MessageLimit), nil)
		}
		c.conn.Log.Info("GraphQL mutation refused; using REST", zap.String("issue", t.Key()),
			zap.String("reason", prose.Clip(prose.Printable(e.Type+": "+e.Message), api.MessageLimit)))
	}
	if len(answer.Data) == 0 {
		c.AvoidGraphQL(t, "the response contains no results")
	}
	return answer.Data, nil
}

// RestAlone reports whether GraphQL has failed recently, so that only REST is used.
func (c *Writer) RestAlone() bool {
	until := c.restUntil.Load()
	return until != nil && time.Now().Before(*until)
}

// AvoidGraphQL makes the Writer use only REST for graphQLRest.
func (c *Writer) AvoidGraphQL(t Thread, why string) {
	until, known := time.Now().Add(graphQLRest), c.RestAlone()
	if c.restUntil.Store(&until); known {
		return // another part of the failed request has already logged it
	}
	c.conn.Log.Warn("GraphQL failed; using REST for a while", zap.String("issue", t.Key()),
		zap.Duration("for", graphQLRest), zap.String("reason", prose.Clip(prose.Printable(why), api.MessageLimit)))
}

// mutations returns the mutations that todo needs, and the whole text of the comment. It returns an empty list if an id
// is unknown.
func (c *Writer) mutations(ctx context.Context, l gate.Lane, t Thread, todo Bundle) (all []api.Mutation, body string,
	err error,
) {
	input, body, err := c.mutationInput(ctx, l, t, todo)
	for _, m := range issueMutations {
		if m.Input = input[m.Name]; m.Input != nil {
			all = append(all, m)
		}
	}
	return all, body, err
}

// mutationInput returns the input of each mutation that todo needs, and the whole text of the comment. Both are empty
// if an id is unknown.
func (c *Writer) mutationInput(ctx context.Context, l gate.Lane, t Thread,
	todo Bundle,
) (input map[string]map[string]any, body string, err error) {
	input = map[string]map[string]any{}
	if todo.On != "" && !t.Issue.Has(todo.On) {
		// Read the label each time, because the label may have been renamed or deleted. GitHub does not count this
		// conditional request while the label is unchanged.
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
	onIssue := input["on"] != nil || input["off"] != nil || input["post"] != nil
	if onIssue && t.Issue.Node == "" || slices.Contains(off, "") || todo.Edit != nil && todo.Edit.node == "" {
		return nil, "", nil
	}
	return input, body, nil
}

// changed returns the issue after the successful changes. It omits labels that other people have added since, because
// the caller must not remove them.
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
