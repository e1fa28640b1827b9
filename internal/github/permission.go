package github

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	gh "github.com/google/go-github/v60/github"
)

// How long the answer about one person is believed: a right that was taken away counts for so long, and a right that was
// just given is missed for so long.
const (
	rightKept   = 5 * time.Minute
	noRightKept = time.Minute
	rightsLimit = 1024 // people; what is forgotten is asked for again
)

// rights remembers who may write where.
type rights struct {
	mu sync.Mutex
	by map[string]right
}

type right struct {
	may   bool
	until time.Time
}

func rightKey(p place, login string) string { return strings.ToLower(p.fullName() + " " + login) }

func (r *rights) get(p place, login string) (may, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.by[rightKey(p, login)]
	return e.may, ok && time.Now().Before(e.until)
}

func (r *rights) put(p place, login string, may bool) {
	kept := noRightKept
	if may {
		kept = rightKept
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.by) >= rightsLimit {
		clear(r.by)
	}
	r.by[rightKey(p, login)] = right{may, time.Now().Add(kept)}
}

// writers are the permissions that let people change a repository. GitHub reports maintain as write, and triage as read.
var writers = map[string]bool{"write": true, "maintain": true, "admin": true}

// mayWrite asks GitHub, or memory, whether a login may write to a repository.
func (c *Client) mayWrite(ctx context.Context, p place, login string) (bool, error) {
	if may, known := c.rights.get(p, login); known {
		return may, nil
	}
	level, _, err := c.lanes[laneReads].Repositories.GetPermissionLevel(ctx, p.owner, p.repo, url.PathEscape(login))
	err = normal(err)
	switch {
	case statusOf(err) == http.StatusForbidden && kindOf(err) == KindPermanent:
		return false, permanent("the token may not ask for the permissions of collaborators of %s: give it write access, or answer Retake by removing the label", p.fullName())
	case err != nil && !isGone(err):
		return false, err
	}
	may := err == nil && writers[level.GetPermission()]
	c.rights.put(p, login, may)
	return may, nil
}

// isPerson reports a positive human identity: not a bot, not an app, not somebody whose account is gone.
func isPerson(u *gh.User) bool {
	return u.GetType() == "User" && u.GetLogin() != "" && !strings.HasSuffix(strings.ToLower(u.GetLogin()), "[bot]")
}
