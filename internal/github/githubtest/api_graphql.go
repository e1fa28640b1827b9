package githubtest

import (
	_ "embed"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/validator"
	"github.com/vektah/gqlparser/v2/validator/rules"
)

// GraphQLPath is the path of the GraphQL API, next to APIPath as on GitHub Enterprise Server.
const GraphQLPath = "/api/graphql"

// Mutation is the Method of a Fault that hits a single GraphQL mutation. The Path of the fault is "/" followed by the
// name of the mutation. The server still runs the request's other mutations. Status 404 produces an error of type
// NOT_FOUND, and any other status an error of type FORBIDDEN. Body is the error message.
const Mutation = "MUTATION"

//go:embed schema.graphql
var schemaText string

// Schema is the part of GitHub's GraphQL schema that the server implements.
var Schema = gqlparser.MustLoadSchema(&ast.Source{Name: "schema.graphql", Input: schemaText})

// fieldError explains why one field of a request failed.
type fieldError struct{ kind, message string }

func (e *fieldError) Error() string { return e.message }

func noNode(id string) error {
	return &fieldError{"NOT_FOUND", "Could not resolve to a node with the global id of '" + id + "'"}
}

// mutations maps the name of a mutation to its implementation. If a mutation fails, its result in the answer is null,
// and the server still runs the remaining mutations.
var mutations = map[string]func(c *call, input map[string]any) (object, error){
	"addComment":           (*call).mutateComment,
	"addLabelsToLabelable": func(c *call, in map[string]any) (object, error) { return c.mutateLabels(in, true) },
	"removeLabelsFromLabelable": func(c *call, in map[string]any) (object, error) {
		return c.mutateLabels(in, false)
	},
	"convertPullRequestToDraft":     (*call).mutateDraft,
	"createPullRequest":             (*call).mutatePull,
	"markPullRequestReadyForReview": (*call).mutateReady,
	"updateIssueComment":            (*call).mutateText,
}

func graphQL(c *call) reply {
	query := c.field("query")
	var variables map[string]any
	_ = json.Unmarshal(c.body["variables"], &variables)
	doc, bad := gqlparser.LoadQueryWithRules(Schema, query, rules.NewDefaultRules())
	if len(bad) > 0 {
		return refuseQuery(bad[0].Message)
	}
	if len(doc.Operations) != 1 {
		return refuseQuery("The fake supports only one operation per request")
	}
	op := doc.Operations[0]
	variables, err := validator.VariableValues(Schema, op, variables)
	if err != nil {
		return refuseQuery(err.Error())
	}
	data, problems := object{}, []object{}
	for _, s := range op.SelectionSet {
		f, ok := s.(*ast.Field)
		if !ok {
			return refuseQuery("The fake does not support fragments")
		}
		payload, err := c.root(op.Operation, f, f.ArgumentMap(variables))
		if err == nil {
			data[f.Alias] = selected(payload, f.SelectionSet, variables)
			continue
		}
		data[f.Alias] = nil
		e := object{
			"message": err.Error(), "path": []string{f.Alias},
			"locations": []object{{"line": f.Position.Line, "column": f.Position.Column}},
		}
		if why, ok := errors.AsType[*fieldError](err); ok && why.kind != "" {
			e["type"] = why.kind
		}
		problems = append(problems, e)
	}
	o := object{"data": data}
	if len(problems) > 0 {
		o["errors"] = problems
	}
	return ok(o)
}

// refuseQuery rejects a whole request, with status 200 as on GitHub.
func refuseQuery(message string) reply { return ok(object{"errors": []object{{"message": message}}}) }

// root runs one top-level field of an operation.
func (c *call) root(kind ast.Operation, f *ast.Field, args map[string]any) (object, error) {
	if kind == ast.Mutation {
		input, _ := args["input"].(map[string]any)
		return c.mutate(f.Name, input)
	}
	id, _ := args["id"].(string)
	r, i := c.issueByNode(id)
	if f.Name != "node" || i == nil {
		return nil, noNode(id)
	}
	return c.graphQLIssue(r, i), nil
}

func (c *call) mutate(name string, input map[string]any) (object, error) {
	if f := c.gate.fault(false, Mutation, "/"+name); f != nil {
		if f.Status == http.StatusNotFound {
			return nil, &fieldError{"NOT_FOUND", f.Body}
		}
		return nil, &fieldError{"FORBIDDEN", f.Body}
	}
	return mutations[name](c, input)
}

// selected returns the fields of an object that a request selects.
func selected(from object, want ast.SelectionSet, variables map[string]any) object {
	out := object{}
	for _, s := range want {
		if on, ok := s.(*ast.InlineFragment); ok {
			if on.TypeCondition == from["__typename"] {
				maps.Copy(out, selected(from, on.SelectionSet, variables))
			}
			continue
		}
		f := s.(*ast.Field)
		v := from[f.Name]
		if list, ok := v.(connection); ok {
			v = list.page(f.ArgumentMap(variables))
		}
		switch v := v.(type) {
		case object:
			out[f.Alias] = selected(v, f.SelectionSet, variables)
		case []object:
			all := make([]object, 0, len(v))
			for _, o := range v {
				all = append(all, selected(o, f.SelectionSet, variables))
			}
			out[f.Alias] = all
		default:
			out[f.Alias] = v
		}
	}
	return out
}

func (c *call) forbidden(mutation string) error {
	return &fieldError{"FORBIDDEN", c.user.login + " does not have the correct permissions to execute `" + mutation +
		"`"}
}

func (c *call) mutateReady(in map[string]any) (object, error) {
	return c.changeDraft(in, "MarkPullRequestReadyForReview", false)
}

func (c *call) mutateDraft(in map[string]any) (object, error) {
	return c.changeDraft(in, "ConvertPullRequestToDraft", true)
}

func (c *call) changeDraft(in map[string]any, name string, draft bool) (object, error) {
	id, _ := in["pullRequestId"].(string)
	r, i := c.issueByNode(id)
	if i == nil || i.Pull == nil {
		return nil, noNode(id)
	}
	if i.Author != c.user && !r.mayWrite(c.user) {
		return nil, c.forbidden(name)
	}
	c.setDraft(r, i, c.user, draft)
	return object{"pullRequest": object{"id": id, "isDraft": i.Pull.Draft}}, nil
}

func (c *call) mutatePull(in map[string]any) (object, error) {
	text := func(name string) string { v, _ := in[name].(string); return v }
	var r *repo
	for _, known := range c.repos {
		if known.MovedTo == "" && nodeID("Repository", known.ID) == text("repositoryId") {
			r = known
		}
	}
	if r == nil {
		return nil, noNode(text("repositoryId"))
	}
	if !r.mayWrite(c.user) {
		return nil, c.forbidden("CreatePullRequest")
	}
	draft, _ := in["draft"].(bool)
	i, refused := c.openPull(r, text("title"), text("body"), text("headRefName"), text("baseRefName"), draft)
	if i == nil {
		return nil, &fieldError{"UNPROCESSABLE", refused.complaint()}
	}
	return object{"pullRequest": object{
		"id": nodeID("PullRequest", i.ID), "number": i.Number, "url": c.to.page(r, i), "isDraft": i.Pull.Draft,
	}}, nil
}

func (c *call) mutateLabels(in map[string]any, on bool) (object, error) {
	id, _ := in["labelableId"].(string)
	r, i := c.issueByNode(id)
	if i == nil {
		return nil, noNode(id)
	}
	if !r.mayTriage(c.user) {
		return nil, c.forbidden(map[bool]string{true: "AddLabelsToLabelable", false: "RemoveLabelsFromLabelable"}[on])
	}
	var names []string
	ids, _ := in["labelIds"].([]any)
	for _, node := range ids {
		at := slices.IndexFunc(r.Labels, func(l *label) bool { return nodeID("Label", l.ID) == node })
		if at < 0 {
			id, _ := node.(string)
			return nil, noNode(id)
		}
		names = append(names, r.Labels[at].Name)
	}
	for _, name := range names {
		if on {
			c.addLabel(r, i, c.user, name)
		} else {
			c.dropLabel(r, i, c.user, name)
		}
	}
	nodes := []object{}
	for _, name := range i.Labels {
		if l := r.label(name); l != nil {
			nodes = append(nodes, object{"id": nodeID("Label", l.ID), "name": l.Name})
		}
	}
	return object{"labelable": object{"id": id, "labels": object{"nodes": nodes, "totalCount": len(nodes)}}}, nil
}

func (c *call) mutateComment(in map[string]any) (object, error) {
	id, _ := in["subjectId"].(string)
	r, i := c.issueByNode(id)
	if i == nil {
		return nil, noNode(id)
	}
	body, err := graphQLBody(in)
	if err != nil {
		return nil, err
	}
	m := c.comment(r, i, c.user, body)
	return object{"commentEdge": object{"cursor": itoa(m.ID), "node": object{
		"id":   nodeID("IssueComment", m.ID),
		"body": m.Body,
	}}}, nil
}

func (c *call) mutateText(in map[string]any) (object, error) {
	id, _ := in["id"].(string)
	r, i, m := c.commentByNode(id)
	if m == nil {
		return nil, noNode(id)
	}
	if m.Author != c.user && !r.mayWrite(c.user) {
		return nil, c.forbidden("UpdateIssueComment")
	}
	body, err := graphQLBody(in)
	if err != nil {
		return nil, err
	}
	c.editBody(r, i, m, c.user, body)
	return object{"issueComment": object{"id": id, "body": m.Body}}, nil
}

func graphQLBody(in map[string]any) (string, error) {
	body, _ := in["body"].(string)
	switch {
	case strings.TrimSpace(body) == "":
		return "", &fieldError{"UNPROCESSABLE", "Body can't be blank"}
	case utf8.RuneCountInString(body) > longest:
		return "", &fieldError{"UNPROCESSABLE", "Body is too long (maximum is 65536 characters)"}
	}
	return body, nil
}

// issueByNode finds an existing issue or pull request.
func (c *call) issueByNode(id string) (*repo, *issue) {
	for _, r := range c.repos {
		if r.MovedTo != "" {
			continue
		}
		for _, i := range r.Issues {
			kind := "Issue"
			if i.Pull != nil {
				kind = "PullRequest"
			}
			if !i.Deleted && i.MovedTo == "" && nodeID(kind, i.ID) == id {
				return r, i
			}
		}
	}
	return nil, nil
}

func (c *call) commentByNode(id string) (*repo, *issue, *comment) {
	for _, r := range c.repos {
		if r.MovedTo != "" {
			continue
		}
		for _, i := range r.Issues {
			for _, m := range i.Comments {
				if !i.Deleted && i.MovedTo == "" && nodeID("IssueComment", m.ID) == id {
					return r, i, m
				}
			}
		}
	}
	return nil, nil, nil
}
