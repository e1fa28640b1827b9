package github

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	"retake/internal/testfiles"
)

// description is GitHub's description of its API, extended by our description of its gaps.
var description = sync.OnceValues(func() (routers.Router, error) {
	path, err := testfiles.OpenAPI()
	if err != nil {
		return nil, err
	}
	data, err := join(path, filepath.Join("testdata", "schemas", "ours.json"))
	if err != nil {
		return nil, err
	}
	doc, err := openapi3.NewLoader().LoadFromData(data)
	if err != nil {
		return nil, err
	}
	api := strings.TrimSuffix(testAPI, "/")
	doc.Servers = openapi3.Servers{{URL: api}, {URL: strings.TrimSuffix(api, "/v3")}} // GraphQL has a path next to it
	return legacy.NewRouter(doc, openapi3.DisableExamplesValidation())
})

// join adds our description to GitHub's description. They must not overlap.
func join(theirs, ours string) ([]byte, error) {
	var all [2]struct {
		Paths      map[string]map[string]json.RawMessage `json:"paths"`
		Components map[string]map[string]json.RawMessage `json:"components"`
	}
	for n, file := range []string{theirs, ours} {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(data, &all[n]); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	to := all[0]
	for path, methods := range all[1].Paths {
		for method, op := range methods {
			if to.Paths[path][method] != nil {
				return nil, fmt.Errorf("%s: GitHub defines %s %s", ours, method, path)
			}
			if to.Paths[path] == nil {
				to.Paths[path] = map[string]json.RawMessage{}
			}
			to.Paths[path][method] = op
		}
	}
	for name, schema := range all[1].Components["schemas"] {
		if to.Components["schemas"][name] != nil {
			return nil, fmt.Errorf("%s: GitHub defines the schema %s", ours, name)
		}
		to.Components["schemas"][name] = schema
	}
	for path, item := range to.Paths {
		if wide, ok := strings.CutSuffix(path, "/{ref}"); ok { // names of branches have slashes
			to.Paths[wide+"/{ref*}"] = item
			delete(to.Paths, path)
		}
	}
	return json.Marshal(map[string]any{
		"openapi": "3.0.3", "info": map[string]string{"title": "GitHub", "version": "as we use it"}, "paths": to.Paths,
		"components": to.Components,
	})
}

// exchange is a request to the stand-in with the expected answer. walk replaces {pull}, {sha}, … by values from earlier
// answers.
type exchange struct {
	method, path, body string
	status             int
	want               string // text that the answer must contain
	keep               string // field of the answer, e.g. "id=check": kept as {check}
}

const pulls, checks = "repos/acme/widgets/pulls", "repos/acme/widgets/check-runs"

// livesOfPulls walks through the lives of two pull requests.
var livesOfPulls = []exchange{
	{
		"POST", pulls, `{"title":"P","head":"retake/1-a1","base":"main","draft":true}`, 201, `"draft":true`,
		"node_id=node",
	},
	{"GET", pulls + "/2", "", 200, `"mergeable":null`, "head.sha=sha"},
	{"GET", pulls + "/2", "", 200, `"mergeable_state":"draft"`, ""},
	{"GET", pulls + "?state=all", "", 200, `"draft":true`, ""},
	{
		"POST", "../graphql",
		`{"query":"mutation($id: ID!) { markPullRequestReadyForReview(input: {pullRequestId: $id}) { pullRequest { isDraft } } }","variables":{"id":"{node}"}}`, 200, `"isDraft":false`, "",
	},
	{
		"POST", "../graphql",
		`{"query":"mutation($id: ID!) { convertPullRequestToDraft(input: {pullRequestId: $id}) { pullRequest { isDraft } } }","variables":{"id":"{node}"}}`, 200, `"isDraft":true`, "",
	},
	{
		"POST", "../graphql",
		`{"query":"mutation { markPullRequestReadyForReview(input: {pullRequestId: \"{node}\"}) { pullRequest { isDraft } } }"}`, 200, `"isDraft":false`, "",
	},
	{
		"POST", "../graphql",
		`{"query":"mutation { markPullRequestReadyForReview(input: {pullRequestId: \"x\"}) { pullRequest { isDraft } } }"}`, 200, `NOT_FOUND`, "",
	},
	{
		"POST", "../graphql", `{"query":"query { viewer { login } }"}`, 200,
		`"errors":[{"message":"Cannot query field \"viewer\" on type \"Query\"`, "",
	},
	{
		"POST", "../graphql",
		`{"query":"mutation { addComment(input: {subjectId: \"{node}\"}) { commentEdge { node { id } } } }"}`,
		200, `"errors":[{"message":"Field`, "",
	},
	{"GET", pulls + "/2", "", 200, `"mergeable_state":"clean"`, ""},
	{"PATCH", pulls + "/2", `{"title":"Q","body":"why","base":"main"}`, 200, `"title":"Q"`, ""},

	{"GET", "repos/acme/widgets/commits/{sha}/check-runs", "", 200, `"total_count":0`, ""},
	{
		"POST", checks, `{"name":"ci","head_sha":"{sha}","status":"in_progress"}`, 201, `"conclusion":null`,
		"id=check",
	},
	{
		"POST", checks,
		`{"name":"lint","head_sha":"{sha}","conclusion":"success","output":{"title":"Fine","summary":"all good"}}`, 201, `"status":"completed"`, "",
	},
	{
		"PATCH", checks + "/{check}",
		`{"conclusion":"failure","output":{"title":"Red","summary":"2 tests failed"}}`, 200,
		`"summary":"2 tests failed"`, "",
	},
	{
		"GET", "repos/acme/widgets/commits/{sha}/check-runs?filter=latest&per_page=1", "", 200, `"total_count":2`,
		"",
	},
	{
		"GET", "repos/acme/widgets/commits/{sha}/check-runs?check_name=ci&status=completed", "", 200,
		`"conclusion":"failure"`, "",
	},
	{"GET", "repos/acme/widgets/commits/{sha}/status", "", 200, `"state":"pending"`, ""},
	{
		"POST", "repos/acme/widgets/statuses/{sha}",
		`{"state":"error","context":"deploy","description":"no room","target_url":"https://ci.test/1"}`, 201,
		`"context":"deploy"`, "",
	},
	{"GET", "repos/acme/widgets/commits/{sha}/status", "", 200, `"state":"failure"`, ""},
	{"GET", pulls + "/2", "", 200, `"mergeable_state":"unstable"`, ""},

	{"GET", pulls + "/2/reviews", "", 200, `[]`, ""},
	{
		"POST", pulls + "/2/reviews",
		`{"event":"REQUEST_CHANGES","body":"no","comments":[{"path":"a.go","line":3,"body":"why?"}]}`, 422,
		`your own pull request`, "",
	},
	{
		"POST", pulls + "/2/reviews",
		`{"event":"COMMENT","body":"see","comments":[{"path":"a.go","line":3,"body":"why?"}]}`, 200,
		`"state":"COMMENTED"`, "id=review",
	},
	{"GET", pulls + "/2/reviews?per_page=100", "", 200, `"state":"COMMENTED"`, ""},
	{"GET", pulls + "/2/reviews/{review}/comments", "", 200, `"line":3`, ""},
	{"GET", pulls + "/2/comments?per_page=100", "", 200, `"path":"a.go"`, ""},
	{"PUT", pulls + "/2/reviews/{review}/dismissals", `{"message":"old"}`, 422, `Can not dismiss`, ""},

	{
		"POST", "repos/acme/widgets/issues/2/comments",
		`{"body":"<!-- retake:claim v1 {\"fleet\":\"default\",\"nonce\":\"k3v9qx2m\"} -->\non the pull request"}`, 201, `/pull/2#issuecomment-`, "",
	},
	{
		"GET",
		"repos/acme/widgets/issues/comments?sort=updated&direction=asc&since=2000-01-01T00:00:00Z&per_page=100",
		"", 200, `issues/2"`, "",
	},
	{"GET", "repos/acme/widgets/issues?state=all", "", 200, `"merged_at":null`, ""},

	{"GET", pulls + "/2/merge", "", 404, ``, ""},
	{
		"PUT", pulls + "/2/merge", `{"sha":"0000000000000000000000000000000000000000"}`, 409,
		`Head branch was modified`, "",
	},
	{"PUT", pulls + "/2/merge", `{"merge_method":"rebase"}`, 405, `not allowed`, ""},
	{"PUT", pulls + "/2/merge", `{"sha":"{sha}","merge_method":"squash"}`, 200, `"merged":true`, ""},
	{"PUT", pulls + "/2/merge", `{}`, 405, `not mergeable`, ""},
	{"GET", pulls + "/2/merge", "", 204, ``, ""},
	{"GET", pulls + "/2", "", 200, `"merged":true`, ""},
	{"GET", "repos/acme/widgets/issues/2/events", "", 200, `"event":"merged"`, ""},
	{"PATCH", pulls + "/2", `{"state":"open"}`, 422, ``, ""},

	{"GET", "repos/acme/widgets/git/ref/heads/retake/1-a1", "", 200, `"ref":"refs/heads/retake/1-a1"`, ""},
	{"DELETE", "repos/acme/widgets/git/refs/heads/retake/1-a1", "", 204, ``, ""},
	{"DELETE", "repos/acme/widgets/git/refs/heads/retake/1-a1", "", 422, `does not exist`, ""},
	{"GET", "repos/acme/widgets/git/ref/heads/retake/1-a1", "", 404, ``, ""},

	{"POST", pulls, `{"title":"R","head":"b","base":"main"}`, 201, `"draft":false`, ""},
	{"PATCH", pulls + "/3", `{"state":"closed"}`, 200, `"state":"closed"`, ""},
	{"PATCH", pulls + "/3", `{"state":"open"}`, 200, `"state":"open"`, ""},
}

// TestTheStandInPlaysPullRequests walks through the life of two pull requests. It checks requests and answers against
// GitHub's description and ours.
func TestTheStandInPlaysPullRequests(t *testing.T) {
	inWorld(t, func(w *world) { w.walk(livesOfPulls) })
}

// walk sends requests one after another as retake-bot.
func (w *world) walk(all []exchange) {
	w.Helper()
	client := checked(w.T, w.sim.Transport())
	kept := map[string]string{}
	fill := func(s string) string {
		for name, v := range kept {
			s = strings.ReplaceAll(s, "{"+name+"}", v)
		}
		return s
	}
	for _, x := range all {
		address := strings.Replace(testAPI+fill(x.path), "v3/../", "", 1)
		req, err := http.NewRequestWithContext(w.Context(), x.method, address, strings.NewReader(fill(x.body)))
		w.must(err)
		req.Header.Set("Authorization", "Bearer token-of-retake-bot")
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.RoundTrip(req)
		w.must(err)
		body, err := io.ReadAll(resp.Body)
		w.must(err)
		if resp.StatusCode != x.status || !strings.Contains(string(body), x.want) {
			w.Fatalf("%s %s %s: %d %s\nwant %d %s", x.method, x.path, fill(x.body), resp.StatusCode, body, x.status,
				x.want)
		}
		if path, name, ok := strings.Cut(x.keep, "="); ok {
			kept[name] = field(w.T, body, path)
		}
	}
}

// field returns a field of a JSON object, such as head.sha, as text.
func field(t *testing.T, body []byte, path string) string {
	t.Helper()
	var v any
	dec := json.NewDecoder(strings.NewReader(string(body)))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(path, ".") {
		v = v.(map[string]any)[name]
	}
	return fmt.Sprint(v)
}

// TestNothingGoesUnchecked checks that a request and its answer fail the test if the descriptions do not contain them,
// or contain them in another form.
func TestNothingGoesUnchecked(t *testing.T) {
	router, err := description()
	if err != nil {
		t.Fatal(err)
	}
	request := func(method, path, body string) error {
		r, err := http.NewRequestWithContext(t.Context(), method, testAPI+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		_, err = checkRequest(router, r, []byte(body))
		return err
	}
	for _, x := range []struct {
		method, path, body string
		ok                 bool
	}{
		{"GET", "repos/acme/widgets/pulls/1/reviews", "", true},
		{"GET", "repos/acme/widgets/git/ref/heads/a/b", "", true},
		{"GET", "repos/acme/widgets/pulls/1/opinions", "", false},
		{"DELETE", "repos/acme/widgets/pulls/1/reviews", "", false},
		{"POST", "repos/acme/widgets/pulls/1/reviews", `{"event":"LIKE"}`, false},
		{"POST", "repos/acme/widgets/pulls/1/reviews", `{"event":"COMMENT","text":"x"}`, false},
		{"POST", "repos/acme/widgets/statuses/main", `{"state":"success"}`, false},
		{"POST", "graphql", `{"mutation":"x"}`, false},
	} {
		if err := request(x.method, x.path, x.body); (err == nil) != x.ok {
			t.Errorf("%s %s %s: %v", x.method, x.path, x.body, err)
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, testAPI+"repos/acme/widgets/pulls/1/reviews",
		http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	in, err := checkRequest(router, r, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer := &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}}
	if err := checkAnswer(in, answer, []byte(`[]`)); err != nil {
		t.Error(err)
	}
	if err := checkAnswer(in, answer, []byte(`[{"id":1}]`)); err == nil {
		t.Error("an incomplete review was accepted as a complete one")
	}
}
