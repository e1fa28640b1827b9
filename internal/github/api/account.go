package api

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"retake/internal/github/gate"
)

// accountWords matches GitHub's messages about a credential that is invalid for every request.
var accountWords = regexp.MustCompile(`(?i)bad credentials|\bsuspended\b|` +
	`\b(?:token|credentials?|session)\b.{0,20}\b(?:has |have |is |are |was )?(?:been )?(?:expired|revoked)\b`)

// ownerWords matches GitHub's messages about an owner's policies, such as single sign-on. Such a policy affects all
// repositories of the owner.
var ownerWords = regexp.MustCompile(`(?i)\bSAML\b|single sign-on|IP allow ?list|` +
	`you appear to have the correct authorization credentials|forbids access via`)

// ssoHeader is a header of GitHub's answer to a token that is not authorized for single sign-on.
const ssoHeader = "X-Github-Sso"

// verdict is the scope of a refusal.
type verdict int

const (
	ofResource verdict = iota // one resource or permission
	ofAccount                 // every request from this director
	undecided                 // the canary received no usable answer
)

// canaryTimeout limits the time of the requests that determine the scope of a refusal.
const canaryTimeout = 10 * time.Second

// reach determines the scope of a refusal with status 401 or 403. If GitHub's message does not reveal the scope, reach
// sends canary requests: to /rate_limit, which every valid credential may read, to the repository, and to another
// repository. The canaries bypass the gate, so the caller must call reach before it ends the refused request's turn.
func (t laneTransport) reach(ctx context.Context, target *url.URL, ans answer) verdict {
	refused := ans.status == http.StatusUnauthorized && t.worked() || ans.status == http.StatusForbidden
	if !refused {
		return ofResource
	}
	ctx, cancel := context.WithTimeout(ctx, canaryTimeout)
	defer cancel()
	repo := t.repoOf(target)
	said := readComplaint(ans.body[:min(len(ans.body), bodyPrefix)]).Message
	switch {
	case accountWords.MatchString(said):
		return ofAccount
	case ownerWords.MatchString(said), ans.header.Get(ssoHeader) != "":
		return t.unlessServed(ctx, t.another(repo, true))
	}
	if v := t.canary(ctx, "rate_limit"); v != ofResource || repo == "" {
		return v
	}
	switch v := t.canary(ctx, "repos/"+repo); {
	case v != ofAccount:
		return v
	case !t.served.has(repo): // perhaps the credential never had access to this repository
		return ofResource
	}
	return t.unlessServed(ctx, t.another(repo, false))
}

// unlessServed determines whether a refusal of a whole repository or owner extends to the account. It requests another,
// a repository outside the refusal's scope. If another is empty, the two cases cannot be distinguished, so unlessServed
// returns ofAccount.
func (t laneTransport) unlessServed(ctx context.Context, another string) verdict {
	if another == "" {
		return ofAccount
	}
	return t.canary(ctx, "repos/"+another)
}

// canary sends a GET, and returns the scope of the refusal that its answer implies.
func (t laneTransport) canary(ctx context.Context, path string) verdict {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.base.JoinPath(path).String(), http.NoBody)
	if err != nil {
		return undecided
	}
	if err := t.authorize(ctx, req); err != nil {
		return undecided
	}
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		return undecided
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, bodyPrefix))
	_, limited := readLimit(resp.StatusCode, resp.Header, body, time.Now())
	switch s := resp.StatusCode; {
	case limited, s >= 500, s < 300 && !bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")):
		return undecided
	case s == http.StatusUnauthorized, s == http.StatusForbidden:
		return ofAccount
	}
	return ofResource
}

// repoOf returns the repository "owner/name" in a request's path, or "".
func (t *transport) repoOf(target *url.URL) string {
	rest, ok := strings.CutPrefix(target.Path, t.base.Path+"repos/")
	owner, rest, split := strings.Cut(rest, "/")
	name, _, _ := strings.Cut(rest, "/")
	if !ok || !split || owner == "" || name == "" {
		return ""
	}
	return owner + "/" + name
}

// another returns another repository that GitHub has served to this process, or "". If otherOwner is set, the
// repository must also have a different owner.
func (t *transport) another(repo string, otherOwner bool) string {
	owner, _, _ := strings.Cut(repo, "/")
	return t.served.find(func(r string) bool {
		return r != repo && (!otherOwner || !strings.HasPrefix(r, owner+"/"))
	})
}

// served remembers at most servedMost repositories that GitHub has served.
type served struct{ Memory[struct{}] }

const servedMost = 256

func (s *served) has(repo string) bool {
	_, ok := s.Get(repo)
	return ok
}

func (s *served) find(fits func(repo string) bool) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for repo := range s.byKey {
		if fits(repo) {
			return repo
		}
	}
	return ""
}

// worked reports whether GitHub has accepted the credential in this process. If GitHub never accepted it, the
// configuration is probably wrong, so the director fails to start and shows GitHub's answer.
func (t *transport) worked() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.works
}

// accountRefused returns the message for a refusal of the account: GitHub's answer, and the next step for the operator.
func accountRefused(op string, ans answer) string {
	said := complaintText(readComplaint(ans.body), 200)
	return op + ": " + cmp.Or(said, http.StatusText(ans.status)) + ": " + nextAccount
}

const nextAccount = "check that the token or the App's installation is valid, not suspended, and authorized for the " +
	"organization (single sign-on, IP allow list); Retake keeps all work and then resumes"

// closedByRefusal closes the gate because GitHub refuses the account, and returns the refused request's error.
func (t *transport) closedByRefusal(w *gate.Request, sent time.Time, why string) *Error {
	until := t.gate.Leave(w, sent, gate.Result{Failure: why, Refused: true})
	return &Error{Kind: KindRateLimited, Resource: gate.API, Until: until, Message: gate.RefusesAll + why}
}
