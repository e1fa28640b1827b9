package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"retake/internal/github/gate"
)

// TestMutationsAreCountedInTheQuery checks that the text of a comment does not count.
func TestMutationsAreCountedInTheQuery(t *testing.T) {
	body, err := json.Marshal(map[string]any{
		"query":     "mutation($a: A!, $b: B!) { a: addLabels(input: $a) { x } b: addComment(input: $b) { y } }",
		"variables": map[string]string{"body": strings.Repeat("f(input: x) ", 100)},
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodPost, "https://github.test/api/graphql", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if got := (laneTransport{lane: gate.Claim}).turnOf(r); got.Changes != 2 || got.Content != 1 || !got.GraphQL {
		t.Errorf("it counts as %d changes, %d of them new content", got.Changes, got.Content)
	}
}
