package github

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"retake/internal/github/command"
)

// TestCommandsOfDeletedAccounts checks that Retake ignores commands by a deleted account, even if the account could
// write when it commented. GitHub attributes its comments to the user ghost, or omits the author.
func TestCommandsOfDeletedAccounts(t *testing.T) {
	for name, now := range map[string]any{
		"ghost":         map[string]any{"login": "ghost", "id": 10137, "type": "User"},
		"nobody":        nil,
		"without login": map[string]any{"login": "", "id": 0, "type": "User"},
		"a path":        map[string]any{"login": "../../../user", "id": 5, "type": "User"},
	} {
		changed := 0
		inWorld(t, func(w *world) {
			c := w.client("retake-bot", via(func(next http.RoundTripper) http.RoundTripper {
				return roundTrip(func(r *http.Request) (*http.Response, error) {
					answer, err := next.RoundTrip(r)
					if err != nil || !strings.HasSuffix(r.URL.Path, "/comments") {
						return answer, err
					}
					var all []map[string]any
					if err := json.NewDecoder(answer.Body).Decode(&all); err != nil {
						return answer, err
					}
					for _, comment := range all {
						comment["user"] = now
					}
					body, err := json.Marshal(all)
					answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(body)), -1
					changed += len(all)
					return answer, err
				})
			}))
			first, err := c.Inbox.Comments(w.Context(), testRepo, "")
			w.must(err)
			w.sim.AddComment(w.key, "acme", "/agent stop")
			w.sim.AddComment(w.key, "acme", "/agent retry rm -rf")
			got, err := c.Inbox.Comments(w.Context(), testRepo, first.Cursor)
			if err != nil || changed != 2 {
				w.Errorf("%s: %v, %d comments changed", name, err, changed)
			}
			for _, s := range got.Said {
				if s.Command != command.None && s.MayWrite {
					w.Errorf("%s: %q by %q may write", name, s.Text, s.By)
				}
			}
		})
	}
}
