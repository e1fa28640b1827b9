package github

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/validator/rules"

	"retake/internal/github/githubtest"
)

// graphQLRequest is the body of a GraphQL request.
type graphQLRequest struct {
	Query     string
	Variables map[string]map[string]any
}

// graphQLBodies returns the comment texts in a GraphQL request.
func graphQLBodies(request []byte) (all []string) {
	var r graphQLRequest
	_ = json.Unmarshal(request, &r)
	for _, input := range r.Variables {
		if body, ok := input["body"].(string); ok {
			all = append(all, body)
		}
	}
	return all
}

// checkGraphQL checks a request and its answer against GitHub's schema. The answer has exactly the requested fields,
// each value has its type, and required values are not null. An invalid request must have been refused without data.
func checkGraphQL(request, answer []byte) error {
	var r struct{ Query string }
	var a struct {
		Data   map[string]any
		Errors []struct{ Path []string }
	}
	if err := json.Unmarshal(request, &r); err != nil {
		return err
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		return err
	}
	doc, problems := gqlparser.LoadQueryWithRules(githubtest.Schema, r.Query, rules.NewDefaultRules())
	if a.Data == nil && len(a.Errors) > 0 {
		return nil
	}
	if len(problems) > 0 {
		return problems[0]
	}
	for field, v := range a.Data {
		failed := slices.ContainsFunc(a.Errors, func(e struct{ Path []string }) bool {
			return len(e.Path) > 0 &&
				e.Path[0] == field
		})
		if (v == nil) != failed {
			return fmt.Errorf("%s is %v, and an error names it: %v", field, v, failed)
		}
	}
	return fits(a.Data, doc.Operations[0].SelectionSet, "data")
}

// fits returns an error if an object differs from the requested fields.
func fits(got map[string]any, want ast.SelectionSet, at string) error {
	want = ofType(want, got["__typename"])
	if len(got) != len(want) {
		return fmt.Errorf("%s has %d fields, want %d", at, len(got), len(want))
	}
	for _, s := range want {
		f := s.(*ast.Field)
		v, there := got[f.Alias]
		if !there {
			return fmt.Errorf("%s has no %s", at, f.Alias)
		}
		if err := fitsType(v, f.Definition.Type, f.SelectionSet, at+"."+f.Alias); err != nil {
			return err
		}
	}
	return nil
}

// ofType returns the requested fields for an object of a type, including fragments. If the type was not requested, it
// returns all fields.
func ofType(want ast.SelectionSet, name any) (fields ast.SelectionSet) {
	for _, s := range want {
		if on, ok := s.(*ast.InlineFragment); !ok {
			fields = append(fields, s)
		} else if name == nil || on.TypeCondition == name {
			fields = append(fields, ofType(on.SelectionSet, name)...)
		}
	}
	return fields
}

func fitsType(v any, t *ast.Type, want ast.SelectionSet, at string) error {
	if v == nil {
		if t.NonNull {
			return fmt.Errorf("%s is null", at)
		}
		return nil
	}
	ok := false
	switch x := v.(type) {
	case []any:
		if t.Elem == nil {
			break
		}
		for i, e := range x {
			if err := fitsType(e, t.Elem, want, fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
		return nil
	case map[string]any:
		if len(want) > 0 && t.Elem == nil {
			return fits(x, want, at)
		}
	case string:
		ok = t.NamedType == "String" || t.NamedType == "ID" || t.NamedType == "URI"
		if t.NamedType == "DateTime" {
			_, err := time.Parse(time.RFC3339, x)
			ok = err == nil
		}
	case bool:
		ok = t.NamedType == "Boolean"
	case float64:
		ok = t.NamedType == "Int" && x == float64(int32(x))
	}
	if !ok {
		return fmt.Errorf("%s is %v, want %s", at, v, t)
	}
	return nil
}

func TestAnswersOfGraphQLAreHeldAgainstItsSchema(t *testing.T) {
	const ask = `{"query":"mutation($l: AddLabelsToLabelableInput!) { on: addLabelsToLabelable(input: $l) { labelable { labels(first: 9) { nodes { name } } } } }"}`
	for answer, ok := range map[string]bool{
		`{"data":{"on":{"labelable":{"labels":{"nodes":[{"name":"a"}]}}}}}`:                           true,
		`{"data":{"on":{"labelable":null}}}`:                                                          true,
		`{"data":{"on":null},"errors":[{"message":"no","path":["on"]}]}`:                              true,
		`{"errors":[{"message":"no"}]}`:                                                               true,
		`{"data":{"on":null}}`:                                                                        false,
		`{"data":{}}`:                                                                                 false,
		`{"data":{"on":{"labelable":{"labels":{"nodes":[{"name":null}]}}}}}`:                          false,
		`{"data":{"on":{"labelable":{"labels":{"nodes":[{"name":7}]}}}}}`:                             false,
		`{"data":{"on":{"labelable":{"labels":{"nodes":{"name":"a"}}}}}}`:                             false,
		`{"data":{"on":{"labelable":{"labels":{"nodes":[{"name":"a","id":"b"}]}}}}}`:                  false,
		`{"data":{"on":{"labelable":{"labels":{"nodes":[{"name":"a"}]}},"clientMutationId":"more"}}}`: false,
	} {
		if err := checkGraphQL([]byte(ask), []byte(answer)); (err == nil) != ok {
			t.Errorf("%s: %v", answer, err)
		}
	}
}
