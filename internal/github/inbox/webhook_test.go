package inbox

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	gh "github.com/google/go-github/v60/github"

	"retake/internal/github/api"
	"retake/internal/github/tracker"
	"retake/internal/testfiles"
)

// TestWebhookExamplesAreIssues parses the issue in each of GitHub's example webhooks like the answer to a request.
func TestWebhookExamplesAreIssues(t *testing.T) {
	all, read := testfiles.Webhooks(t), 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		testfiles.Try(t, name, func(t *testing.T) {
			var event struct{ Issue *tracker.RawIssue }
			if err := json.Unmarshal(all[name], &event); err != nil {
				t.Fatal(err)
			}
			if event.Issue == nil {
				return
			}
			read++
			at, err := tracker.PlaceOf(&event.Issue.Issue)
			if err != nil {
				t.Fatal(err)
			}
			i := (&tracker.Reader{}).ToIssue(at, event.Issue)
			if i.Key != at.Key() || i.Title == "" || i.UpdatedAt.IsZero() {
				t.Errorf("%+v", i)
			}
			if strings.HasPrefix(name, "issues__labeled") && len(i.Labels) == 0 {
				t.Errorf("no labels: %+v", i)
			}
		})
	}
	if read == 0 {
		t.Error("no example has an issue")
	}
}

// TestWebhookExamplesAreRead reads each of GitHub's example webhooks. The name of the file begins with the event.
func TestWebhookExamplesAreRead(t *testing.T) {
	all := testfiles.Webhooks(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		testfiles.Try(t, name, func(t *testing.T) {
			event, _, _ := strings.Cut(name, "__")
			n, err := ReadWebhook(event, all[name])
			if err != nil {
				t.Fatal(err)
			}
			if want := hooks[event] != nil; n.Matters != want || want && (n.Repo == "" || n.Issue == 0) {
				t.Errorf("%+v, want matters = %v", n, want)
			}
		})
	}
}

func TestReadWebhook(t *testing.T) {
	const in = `"repository":{"full_name":"acme/widgets"}`
	for _, tc := range []struct {
		event, body string
		want        Notice
		fails       bool
	}{
		{"ping", `{"zen":"x"}`, Notice{}, false},
		{"label", `{"action":"created",` + in + `}`, Notice{Repo: "acme/widgets"}, false},
		{"of_tomorrow", `{` + in + `,"issue":{"number":3}}`, Notice{Repo: "acme/widgets"}, false},
		{"issues", `{` + in + `,"issue":{"number":3}}`, Notice{"acme/widgets", 3, "", true}, false},
		{
			"issue_comment", `{` + in + `,"issue":{"number":3},"comment":{"id":1}}`,
			Notice{"acme/widgets", 3, "", true},
			false,
		},
		{
			"pull_request", `{` + in + `,"number":4,"pull_request":{"number":4}}`,
			Notice{"acme/widgets", 4, "", true},
			false,
		},
		{
			"pull_request_review", `{` + in + `,"pull_request":{"number":4},"review":{"id":1}}`,
			Notice{"acme/widgets", 4, "", true},
			false,
		},
		{
			"pull_request_review_comment", `{` + in + `,"pull_request":{"number":4}}`,
			Notice{"acme/widgets", 4, "", true},
			false,
		},
		{"check_run", `{` + in + `,"check_run":{"head_sha":"abc"}}`, Notice{"acme/widgets", 0, "abc", true}, false},
		{"check_suite", `{` + in + `,"check_suite":{"head_sha":"abc"}}`, Notice{"acme/widgets", 0, "abc", true}, false},
		{"status", `{` + in + `,"sha":"abc"}`, Notice{"acme/widgets", 0, "abc", true}, false},
		{"issues", `{"issue":{"number":3}}`, Notice{}, true},
		{"issues", `{` + in + `}`, Notice{}, true},
		{"issues", `{` + in + `,"issue":{"number":"3"}}`, Notice{}, true},
		{"ping", `no`, Notice{}, true},
		{"status", ``, Notice{}, true},
	} {
		got, err := ReadWebhook(tc.event, []byte(tc.body))
		if got != tc.want || (err != nil) != tc.fails {
			t.Errorf("%s %s: %+v, %v", tc.event, tc.body, got, err)
		}
	}
}

// TestWebhookExamplesAreComments parses the comment in each of GitHub's example webhooks like the answer to a request.
func TestWebhookExamplesAreComments(t *testing.T) {
	all, read := testfiles.Webhooks(t), 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		testfiles.Try(t, name, func(t *testing.T) {
			var event struct {
				Issue      *gh.Issue
				Comment    *gh.IssueComment
				Repository *gh.Repository
			}
			if err := json.Unmarshal(all[name], &event); err != nil {
				t.Fatal(err)
			}
			if event.Comment == nil {
				return
			}
			read++
			repo, err := api.ParseRepo(event.Repository.GetFullName())
			if err != nil {
				t.Fatal(err)
			}
			at, ok := placeOfComment(repo, event.Comment)
			r := (&tracker.Reader{}).ToComment(event.Comment, "retake")
			if !ok || at.Number != event.Issue.GetNumber() || !r.ByPerson() || r.Edited.IsZero() ||
				toAnswer(r, "retake").Text == "" {
				t.Errorf("on %s: %+v", at.Key(), r)
			}
		})
	}
	if read == 0 {
		t.Error("no example has a comment")
	}
}
