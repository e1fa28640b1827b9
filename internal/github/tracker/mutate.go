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

// Bundle is what one request of GraphQL does to an issue, in this order. Only named labels come on or go off,
// so that no label is lost that somebody else touches at the same moment.
type Bundle struct {
	On   string   // label that the issue lacks; empty: none
	Off  []string // labels of ours, as they are called today, that go off where they are on
	Mark Marker
	Text string   // of our comment, below the marker; empty: no comment
	Edit *Comment // that is edited; nil: a new one
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

// Mutate does several changes in one request, and returns the issue as it is then: what it still lacks is left
// to the calls of REST that follow, which do nothing for what is done. So a request that is refused, or carried
// out in part, costs nothing but time. It is not sent for a single change, nor for a while after GraphQL has
// failed. An error means that nobody knows what was done.
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
			return t, nil // nothing was done, and REST has points of its own
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
		c.conn.Log.Info("a change of GraphQL is left to REST", zap.String("issue", t.Key()),
			zap.String("reason", prose.Clip(prose.Printable(e.Type+": "+e.Message), api.MessageLimit)))
	}
	if len(answer.Data) == 0 {
		c.AvoidGraphQL(t, "it carries out nothing")
	}
	return t.changed(todo, body, answer.Data), nil
}

// RestAlone reports whether GraphQL has failed a while ago.
func (c *Writer) RestAlone() bool {
	until := c.restUntil.Load()
	return until != nil && time.Now().Before(*until)
}

// AvoidGraphQL leaves everything to REST for a while.
func (c *Writer) AvoidGraphQL(t Thread, why string) {
	until := time.Now().Add(graphQLRest)
	c.restUntil.Store(&until)
	c.conn.Log.Warn("GraphQL fails: REST does its work for a while", zap.String("issue", t.Key()),
		zap.Duration("for", graphQLRest), zap.String("reason", prose.Clip(prose.Printable(why), api.MessageLimit)))
}

// mutationInput is the input of each field, without those that have nothing to do, and the whole text of the
// comment. It is empty if an id is not known.
func (c *Writer) mutationInput(ctx context.Context, l gate.Lane, t Thread,
	todo Bundle,
) (input map[string]map[string]any, body string, err error) {
	input = map[string]map[string]any{}
	if todo.On != "" && !t.Issue.Has(todo.On) {
		// Asked for each time, which costs nothing while the label stays what it is: the id of a label that was
		// renamed or deleted must not be used.
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
