package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	gh "github.com/google/go-github/v60/github"
	"go.uber.org/zap"

	"retake/internal/github/api"
	"retake/internal/github/command"
	"retake/internal/github/gate"
	"retake/internal/github/prose"
	"retake/internal/github/tracker"
)

// Said is a comment by a person on an issue or a pull request. The fields that Vet sets are valid only if it contains a
// command.
type Said struct {
	Issue       string // "owner/repo#n", with the requested name
	PullRequest bool
	command.Answer
}

// Comments is the result of one poll of a repository's comments.
type Comments struct {
	Said   []Said // oldest first, without comments by bots or directors
	Cursor string // for the next call; the caller must store it together with the results of Said
}

// Comments lists the comments that were written or edited in a repository since the cursor of an earlier call. If there
// are no changes, it sends one conditional request, which does not count against the hourly limit. If cursor is empty,
// the list is empty, and the new cursor is GitHub's current time.
//
// Comments returns each version of a comment once, so an edited comment appears again. If many people with unknown
// permissions give commands at once, Comments looks up only rightsPerCall permissions. The cursor then stays before the
// first command that needs another lookup.
func (c *Inbox) Comments(ctx context.Context, repo, cursor string) (Comments, error) {
	p, err := api.ParseRepo(repo)
	if err != nil {
		return Comments{}, err
	}
	if cursor == "" {
		_, resp, err := c.repoComments(ctx, p, time.Now(), 0)
		if err != nil {
			return Comments{}, err
		}
		return Comments{Cursor: api.Format(api.ServerTime(resp.Header, time.Now()))}, nil
	}
	from, err := parseHeard(cursor)
	if err != nil {
		return Comments{}, err
	}
	self, err := c.conn.Self(ctx, gate.Reads)
	if err != nil {
		return Comments{}, err
	}
	all := map[int64]*gh.IssueComment{} // if a comment is on two pages, the later version wins
	upTo, err := readSince(from.at, func(since time.Time, page int) ([]*gh.IssueComment, error) {
		raw, _, err := c.repoComments(ctx, p, since, page)
		for _, r := range raw {
			all[r.GetID()] = r
		}
		return raw, err
	}, func(r *gh.IssueComment) (int64, time.Time) { return r.GetID(), r.GetUpdatedAt().UTC() })
	if errors.Is(err, errSameSecond) {
		err = api.Permanent("more than %d comments on %s were written in one second", sameSecond*api.PageSize/2, repo)
	}
	if err != nil {
		return Comments{}, err
	}
	return c.hear(ctx, p, self, from, upTo, slices.Collect(maps.Values(all)))
}

func (c *Inbox) repoComments(ctx context.Context, p api.Place, since time.Time,
	page int,
) ([]*gh.IssueComment, *gh.Response, error) {
	sort, direction, since := "updated", "asc", since.UTC().Truncate(time.Second)
	raw, resp, err := c.conn.Lane(gate.Reads).Issues.ListComments(ctx, p.Owner, p.Repo, 0, &gh.IssueListCommentsOptions{
		Sort: &sort, Direction: &direction, Since: &since, ListOptions: gh.ListOptions{
			PerPage: api.PageSize,
			Page:    page,
		},
	})
	return raw, resp, api.Normalize(err)
}

// hear selects people's comments, oldest first, and looks up the permissions for commands. It stops at the command that
// would need more than rightsPerCall lookups.
func (c *Inbox) hear(ctx context.Context, p api.Place, self string, next heard, upTo time.Time,
	all []*gh.IssueComment,
) (Comments, error) {
	slices.SortFunc(all, func(a, b *gh.IssueComment) int {
		return cmp.Or(a.GetUpdatedAt().Compare(b.GetUpdatedAt().Time), cmp.Compare(a.GetID(), b.GetID()))
	})
	var out Comments
	asked := 0
	for _, raw := range all {
		r := c.read.ToComment(raw, self)
		at, ok := placeOfComment(p, raw)
		if !ok || !r.ByPerson() || next.has(r) {
			continue
		}
		s := Said{Issue: at.Key(), PullRequest: strings.Contains(raw.GetHTMLURL(), "/pull/"), Answer: toAnswer(r, self)}
		if s.Command != command.None {
			if !c.read.KnowsRight(p, r.Author) {
				if asked++; asked > rightsPerCall {
					c.conn.Log.Warn("many people are using commands at once; the rest will be read later",
						zap.String("repo", p.FullName()), zap.Int64("comment", r.ID))
					out.Cursor = next.String()
					return out, nil
				}
			}
			if err := c.vet(ctx, p, &s.Answer); err != nil {
				return Comments{}, err
			}
		}
		out.Said = append(out.Said, s)
		next.add(r)
	}
	next.reach(upTo)
	out.Cursor = next.String()
	return out, nil
}

// placeOfComment returns the issue that a comment belongs to.
func placeOfComment(p api.Place, raw *gh.IssueComment) (api.Place, bool) {
	url := raw.GetIssueURL()
	n, err := strconv.Atoi(url[strings.LastIndexByte(url, '/')+1:])
	p.Number = n
	return p, err == nil && n > 0
}

// heard is a cursor. at is a whole second, and everything before it has been returned. keys identifies the comments
// already returned for that second, because more may follow in it. A cursor is written as the time, followed by the
// keys.
type heard struct {
	at   time.Time
	keys []string
}

// heardKeys is the maximum number of keys in a cursor. If a second has more texts, the cursor omits all keys, and the
// next call returns these texts again, with the same ids and times.
const heardKeys = 500

func parseHeard(cursor string) (heard, error) {
	parts := strings.Fields(cursor)
	if len(parts) > 0 {
		if at, err := time.Parse(time.RFC3339, parts[0]); err == nil {
			return heard{at.UTC(), parts[1:]}, nil
		}
	}
	return heard{}, api.Permanent("cursor %q: want a cursor from an earlier poll, or an empty one",
		prose.Clip(cursor, 60))
}

func (h heard) String() string {
	keys := h.keys
	if len(keys) > heardKeys {
		keys = nil
	}
	return strings.Join(append([]string{api.Format(h.at)}, keys...), " ")
}

// heardKey returns a key for one version of a comment. The id and time are not enough, because a comment can be edited
// twice in one second.
func heardKey(r tracker.Comment) string {
	sum := fnv.New64a()
	_, _ = fmt.Fprint(sum, r.ID, " ", r.Body) // a hash never fails
	return strconv.FormatUint(sum.Sum64(), 36)
}

func (h heard) has(r tracker.Comment) bool {
	return r.Edited.Equal(h.at) && slices.Contains(h.keys, heardKey(r))
}

// add records a returned comment. The caller must add comments oldest first.
func (h *heard) add(r tracker.Comment) {
	h.reach(r.Edited)
	h.keys = append(slices.Clip(h.keys), heardKey(r))
}

// reach advances the cursor to a later second, once everything before that second has been returned.
func (h *heard) reach(at time.Time) {
	if at.After(h.at) {
		h.at, h.keys = at, nil
	}
}
