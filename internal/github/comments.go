package github

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

	"retake/internal/github/gate"
)

// Said is what a person has written on an issue or a pull request. Of one without a command only what the
// comment says is filled in: see Vet.
type Said struct {
	Issue       string // "owner/repo#n", with the name that was asked for
	PullRequest bool
	Answer
}

// Comments is the result of one look at a repository's comments.
type Comments struct {
	Said   []Said // in the order of their times; of bots and directors none
	Cursor string // for the next look; store it together with what follows from Said
}

// Comments lists what people have written or edited in a repository since the cursor that an earlier call
// returned: one conditional request while nobody does, which costs nothing of the hourly limit. Without a
// cursor nothing is said, and the cursor is GitHub's time now.
//
// An edit comes again, as a text of its own; anything else comes once. If many people without known permissions
// give commands at once, the cursor stays before the first one that could not be looked up yet.
func (c *Client) Comments(ctx context.Context, repo, cursor string) (Comments, error) {
	p, err := parseRepo(repo)
	if err != nil {
		return Comments{}, err
	}
	if cursor == "" {
		_, resp, err := c.repoComments(ctx, p, time.Now(), 0)
		if err != nil {
			return Comments{}, err
		}
		return Comments{Cursor: format(serverTime(resp.Header, time.Now()))}, nil
	}
	from, err := parseHeard(cursor)
	if err != nil {
		return Comments{}, err
	}
	self, err := c.self(ctx, gate.Reads)
	if err != nil {
		return Comments{}, err
	}
	all := map[int64]*gh.IssueComment{} // of one that is on two pages the later version counts
	upTo, err := readSince(from.at, func(since time.Time, page int) ([]*gh.IssueComment, error) {
		raw, _, err := c.repoComments(ctx, p, since, page)
		for _, r := range raw {
			all[r.GetID()] = r
		}
		return raw, err
	}, func(r *gh.IssueComment) (int64, time.Time) { return r.GetID(), r.GetUpdatedAt().UTC() })
	if errors.Is(err, errSameSecond) {
		err = permanent("more than %d comments of %s were written in one second", sameSecond*pageSize/2, repo)
	}
	if err != nil {
		return Comments{}, err
	}
	return c.hear(ctx, p, self, from, upTo, slices.Collect(maps.Values(all)))
}

func (c *Client) repoComments(ctx context.Context, p place, since time.Time,
	page int,
) ([]*gh.IssueComment, *gh.Response, error) {
	sort, direction, since := "updated", "asc", since.UTC().Truncate(time.Second)
	raw, resp, err := c.lanes[gate.Reads].Issues.ListComments(ctx, p.owner, p.repo, 0, &gh.IssueListCommentsOptions{
		Sort: &sort, Direction: &direction, Since: &since, ListOptions: gh.ListOptions{PerPage: pageSize, Page: page},
	})
	return raw, resp, normalize(err)
}

// hear picks what people said, and looks up who may command, in the order of the comments' times until too many
// are unknown.
func (c *Client) hear(ctx context.Context, p place, self string, next heard, upTo time.Time,
	all []*gh.IssueComment,
) (Comments, error) {
	slices.SortFunc(all, func(a, b *gh.IssueComment) int {
		return cmp.Or(a.GetUpdatedAt().Compare(b.GetUpdatedAt().Time), cmp.Compare(a.GetID(), b.GetID()))
	})
	var out Comments
	asked := 0
	for _, raw := range all {
		r := c.toComment(raw, self)
		at, ok := placeOfComment(p, raw)
		if !ok || !r.byPerson() || next.has(r) {
			continue
		}
		s := Said{Issue: at.key(), PullRequest: strings.Contains(raw.GetHTMLURL(), "/pull/"), Answer: toAnswer(r, self)}
		if s.Command != CommandNone {
			if !c.knowsRight(p, r.author) {
				if asked++; asked > rightsPerCall {
					c.log.Warn("many people give commands at once: the rest is read later",
						zap.String("repo", p.fullName()), zap.Int64("comment", r.id))
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

// placeOfComment reads on which issue a comment stands.
func placeOfComment(p place, raw *gh.IssueComment) (place, bool) {
	url := raw.GetIssueURL()
	n, err := strconv.Atoi(url[strings.LastIndexByte(url, '/')+1:])
	p.number = n
	return p, err == nil && n > 0
}

// heard is a cursor: everything before a second was told, and of that second some texts, because more may still be
// written in it. Its form is the time, then a key for each text.
type heard struct {
	at   time.Time
	keys []string
}

// heardKeys bounds the texts of one second in a cursor. Of more none is noted: they come again, with the same
// ids and times.
const heardKeys = 500

func parseHeard(cursor string) (heard, error) {
	parts := strings.Fields(cursor)
	if len(parts) > 0 {
		if at, err := time.Parse(time.RFC3339, parts[0]); err == nil {
			return heard{at.UTC(), parts[1:]}, nil
		}
	}
	return heard{}, permanent("cursor %q: want what an earlier look at the comments returned, or nothing",
		clip(cursor, 60))
}

func (h heard) String() string {
	keys := h.keys
	if len(keys) > heardKeys {
		keys = nil
	}
	return strings.Join(append([]string{format(h.at)}, keys...), " ")
}

// heardKey names one text of one comment: it can be edited twice in the same second.
func heardKey(r comment) string {
	sum := fnv.New64a()
	_, _ = fmt.Fprint(sum, r.id, " ", r.body) // a hash never fails
	return strconv.FormatUint(sum.Sum64(), 36)
}

func (h heard) has(r comment) bool {
	return r.edited.Equal(h.at) && slices.Contains(h.keys, heardKey(r))
}

// add notes a text that is told now. They come in the order of their times.
func (h *heard) add(r comment) {
	h.reach(r.edited)
	h.keys = append(slices.Clip(h.keys), heardKey(r))
}

// reach moves on: there is nothing more to tell from before that second.
func (h *heard) reach(at time.Time) {
	if at.After(h.at) {
		h.at, h.keys = at, nil
	}
}
