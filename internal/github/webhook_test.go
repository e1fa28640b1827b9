package github

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	gh "github.com/google/go-github/v60/github"

	"retake/internal/testfiles"
)

// TestWebhookExamplesAreIssues reads the issue of every example that GitHub gives, as if it were the answer to a request.
func TestWebhookExamplesAreIssues(t *testing.T) {
	all, read := testfiles.Webhooks(t), 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		testfiles.Try(t, name, func(t *testing.T) {
			var event struct{ Issue *gh.Issue }
			if err := json.Unmarshal(all[name], &event); err != nil {
				t.Fatal(err)
			}
			if event.Issue == nil {
				return
			}
			read++
			at, err := placeOf(event.Issue)
			if err != nil {
				t.Fatal(err)
			}
			i := toIssue(at, event.Issue)
			if i.Key != at.key() || i.Title == "" || i.UpdatedAt.IsZero() {
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
