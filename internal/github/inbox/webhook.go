package inbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"

	gh "github.com/google/go-github/v60/github"
)

// ErrSignature means that a webhook has no signature, or that the signature does not match the body and our secret.
var ErrSignature = errors.New("github: webhook: the signature does not match the body: " +
	"set the same secret here and on GitHub")

// Signed reports whether a webhook has a SHA-256 signature. It does not check the signature; see OpenWebhook.
func Signed(h http.Header) bool { return strings.HasPrefix(h.Get(gh.SHA256SignatureHeader), "sha256=") }

// OpenWebhook checks the signature of a webhook in constant time, and then parses the body. It accepts only
// HMAC-SHA256, not the older HMAC-SHA1. It returns ErrSignature, an error about the content type, or an error from
// ReadWebhook. https://docs.github.com/webhooks/using-webhooks/validating-webhook-deliveries
func OpenWebhook(h http.Header, body []byte, secret string) (Notice, error) {
	signature := h.Get(gh.SHA256SignatureHeader)
	if secret == "" || !Signed(h) || gh.ValidateSignature(signature, body, []byte(secret)) != nil {
		return Notice{}, ErrSignature
	}
	kind, _, _ := mime.ParseMediaType(h.Get("Content-Type")) // GitHub sends JSON, or a form with JSON in it
	payload, err := gh.ValidatePayloadFromBody(kind, bytes.NewReader(body), signature, []byte(secret))
	if err != nil {
		return Notice{}, fmt.Errorf("github: webhook: content type %.60q, want application/json", h.Get("Content-Type"))
	}
	return ReadWebhook(h.Get(gh.EventTypeHeader), payload)
}

// Notice states which issue, pull request or commit has changed on GitHub, but not how. The director then queries
// GitHub, so a late, repeated or forged notice costs at most a request. If a notice is lost, the next poll finds the
// change.
type Notice struct {
	Repo    string // owner/repo, or empty
	Issue   int    // number of the issue or pull request, or 0
	SHA     string // commit of a check or status, or empty
	Matters bool   // the change must be read now
}

// hook is the part of a webhook's body that this package reads.
type hook struct {
	Repository struct {
		FullName string `json:"full_name"`
	} `json:"repository"`
	Issue       numbered     `json:"issue"`
	PullRequest numbered     `json:"pull_request"`
	CheckRun    commitOfHook `json:"check_run"`
	CheckSuite  commitOfHook `json:"check_suite"`
	SHA         string       `json:"sha"`
}

type numbered struct {
	Number int `json:"number"`
}

type commitOfHook struct {
	HeadSHA string `json:"head_sha"`
}

// hooks maps each event that matters to a function that finds the changed object in its body.
// https://docs.github.com/webhooks/webhook-events-and-payloads
var hooks = map[string]func(hook) (issue int, sha string){
	"issues":                      func(h hook) (int, string) { return h.Issue.Number, "" },
	"issue_comment":               func(h hook) (int, string) { return h.Issue.Number, "" },
	"pull_request":                func(h hook) (int, string) { return h.PullRequest.Number, "" },
	"pull_request_review":         func(h hook) (int, string) { return h.PullRequest.Number, "" },
	"pull_request_review_comment": func(h hook) (int, string) { return h.PullRequest.Number, "" },
	"check_run":                   func(h hook) (int, string) { return 0, h.CheckRun.HeadSHA },
	"check_suite":                 func(h hook) (int, string) { return 0, h.CheckSuite.HeadSHA },
	"status":                      func(h hook) (int, string) { return 0, h.SHA },
}

// ReadWebhook parses the body of a webhook. event is the value of the X-GitHub-Event header. For an unknown event, it
// returns a Notice that does not matter. The body must be a JSON object. For a known event, it must identify a
// repository and an issue or commit.
func ReadWebhook(event string, body []byte) (Notice, error) {
	var h hook
	if err := json.Unmarshal(body, &h); err != nil {
		return Notice{}, fmt.Errorf("github: webhook %s: %w", event, err)
	}
	n := Notice{Repo: h.Repository.FullName}
	read, ok := hooks[event]
	if !ok {
		return n, nil
	}
	n.Issue, n.SHA = read(h)
	if n.Repo == "" || n.Issue < 1 && n.SHA == "" {
		return Notice{}, fmt.Errorf("github: webhook %s: the body does not identify a repository and an issue or "+
			"commit", event)
	}
	n.Matters = true
	return n, nil
}
