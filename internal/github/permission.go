package github

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	gh "github.com/google/go-github/v60/github"
)

// How long GitHub's answer about one person is kept. A right that was withdrawn or granted meanwhile takes effect after that.
const (
	rightKept   = 5 * time.Minute
	noRightKept = time.Minute
)

// right is what is known of one person in one repository.
type right struct {
	may   bool
	until time.Time
}

func rightKey(p place, login string) string { return strings.ToLower(p.fullName() + " " + login) }

// knownRight returns what GitHub answered not long ago.
func (c *Client) knownRight(p place, login string) (may, known bool) {
	r, ok := c.rights.get(rightKey(p, login))
	return r.may, ok && time.Now().Before(r.until)
}

// writers are the permissions that let people change a repository. GitHub reports maintain as write, triage as read, and a
// custom role, whose name says nothing, as the role that it is built on.
var writers = map[string]bool{"write": true, "maintain": true, "admin": true}

// mayWrite asks GitHub, or memory, whether a login may write to a repository.
func (c *Client) mayWrite(ctx context.Context, p place, login string) (bool, error) {
	if may, known := c.knownRight(p, login); known {
		return may, nil
	}
	level, _, err := c.lanes[laneReads].Repositories.GetPermissionLevel(ctx, p.owner, p.repo, url.PathEscape(login))
	err = normalize(err)
	switch {
	case statusOf(err) == http.StatusForbidden && kindOf(err) == KindPermanent:
		return false, permanent("the token may not ask for the permissions of collaborators of %s: give it write access, or answer by removing the label", p.fullName())
	case err != nil && !isGone(err):
		return false, err
	}
	may, kept := err == nil && writers[level.GetPermission()], noRightKept
	if may {
		kept = rightKept
	}
	c.rights.put(rightKey(p, login), right{may, time.Now().Add(kept)})
	return may, nil
}

// isPerson reports whether an account is certainly a person's: no bot, no app, no deleted account.
func isPerson(u *gh.User) bool {
	return u.GetType() == "User" && u.GetLogin() != "" && !strings.HasSuffix(strings.ToLower(u.GetLogin()), "[bot]")
}
