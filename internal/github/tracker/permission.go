package tracker

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	gh "github.com/google/go-github/v60/github"

	"retake/internal/github/api"
	"retake/internal/github/gate"
)

// Lifetimes of cached answers about a person's rights, with and without write access. A new right takes effect within
// noRightKept. A lost right is noticed at the next command; see MayWriteAt.
const (
	rightKept   = 5 * time.Minute
	noRightKept = time.Minute
)

// Limits for the authors of markers. One read of an issue looks up the rights of at most markersPerCall authors, and
// the next read continues with the rest. A negative answer is cached for noMarkerKept, which is safe because a
// director's account has write access before its first claim.
const (
	markersPerCall = 20
	noMarkerKept   = time.Hour
)

// right is a cached answer about one person in one repository.
type right struct {
	write, triage bool
	asked         time.Time
}

// stands reports whether the answer is recent enough to authorize commands from people.
func (r right) stands() bool {
	kept := noRightKept
	if r.write {
		kept = rightKept
	}
	return time.Since(r.asked) < kept
}

func rightKey(p api.Place, login string) string { return strings.ToLower(p.FullName() + " " + login) }

// KnowsRight reports whether the cache has a recent answer about a login, in which case MayWrite and MayTriage do not
// send a request.
func (c *Reader) KnowsRight(p api.Place, login string) bool {
	r, ok := c.rights.Get(rightKey(p, login))
	return ok && r.stands()
}

// writers contains the permissions that include write access. GitHub reports maintain as write, triage as read, and a
// custom role as its base role.
var writers = map[string]bool{"write": true, "maintain": true, "admin": true}

// MayWrite reports whether a login may write to a repository. It caches GitHub's answers for a few minutes.
func (c *Reader) MayWrite(ctx context.Context, p api.Place, login string) (bool, error) {
	r, err := c.right(ctx, p, login)
	return r.write, err
}

// MayWriteAt is like MayWrite, for a change that the person made at a time. It ignores an older cached right, because
// the person may have lost it.
func (c *Reader) MayWriteAt(ctx context.Context, p api.Place, login string, at time.Time) (bool, error) {
	r, known := c.rights.Get(rightKey(p, login))
	if known && r.write && r.asked.Before(at) {
		r, err := c.look(ctx, p, login)
		return r.write, err
	}
	return c.MayWrite(ctx, p, login)
}

// MayTriage reports whether a login may label the issues of a repository. It caches GitHub's answers for a few minutes.
func (c *Reader) MayTriage(ctx context.Context, p api.Place, login string) (bool, error) {
	r, err := c.right(ctx, p, login)
	return r.triage, err
}

// mayMark is like MayWrite, but for the author of a marker. left is the number of requests that it may still send. If
// left is 0, mayMark returns a transient error, and a later call continues with the cached answers.
func (c *Reader) mayMark(ctx context.Context, p api.Place, login string, left *int) (bool, error) {
	r, known := c.rights.Get(rightKey(p, login))
	if known && (r.stands() || !r.write && time.Since(r.asked) < noMarkerKept) {
		return r.write, nil
	}
	if *left == 0 {
		return false, &api.Error{
			Kind: api.KindTransient, Doubtful: true,
			Message: "many people wrote comments that look like claims: Retake checks their permissions a few at a " +
				"time",
		}
	}
	*left--
	return c.MayWrite(ctx, p, login)
}

func (c *Reader) right(ctx context.Context, p api.Place, login string) (right, error) {
	if r, known := c.rights.Get(rightKey(p, login)); known && r.stands() {
		return r, nil
	}
	return c.look(ctx, p, login)
}

// look asks GitHub for a person's rights.
func (c *Reader) look(ctx context.Context, p api.Place, login string) (right, error) {
	level, _, err := c.conn.Lane(gate.Completion).Repositories.GetPermissionLevel(ctx, p.Owner, p.Repo,
		url.PathEscape(login))
	err = api.Normalize(err)
	switch {
	case api.StatusOf(err) == http.StatusForbidden && api.KindOf(err) == api.KindPermanent:
		return right{}, api.Permanent("the token cannot read collaborator permissions in %s: give it write access, "+
			"or answer questions by removing the blocked label", p.FullName())
	case err != nil && !api.IsGone(err):
		return right{}, err
	}
	r := right{asked: time.Now()}
	if err == nil {
		r.write = writers[level.GetPermission()]
		r.triage = r.write || level.GetUser().GetPermissions()["triage"]
	}
	c.rights.Put(rightKey(p, login), r)
	return r, nil
}

// IsPerson reports whether an account certainly belongs to a person and is not a bot, an app or a deleted account.
func IsPerson(u *gh.User) bool {
	return u.GetType() == "User" && u.GetLogin() != "" && !strings.HasSuffix(strings.ToLower(u.GetLogin()), "[bot]")
}
