package inbox

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"retake/internal/github/api"
	"retake/internal/github/command"
	"retake/internal/github/gate"
	"retake/internal/github/tracker"
)

// mostReferences is the maximum number of references that are read from one text.
const mostReferences = 20

var (
	// dependsLine matches part of a line, such as "Blocked by #1, acme/gadgets#2 and
	// https://github.com/acme/gadgets/issues/3".
	dependsLine = regexp.MustCompile(`(?i)\b(?:blocked by|depends on)\b:?\s+((?:` + referenceForm +
		`)(?:(?:\s*,\s*|\s+and\s+|\s*,\s*and\s+|\s+)(?:` + referenceForm + `))*)`)
	// taskItem matches an unchecked item of a task list that begins with a reference to an issue.
	taskItem = regexp.MustCompile(`^\s*[-*+] \[ \] +(` + referenceForm + `)(?:[\s,.:;)]|$)`)
	// codeOrComment matches HTML comments, as in templates, and code within a line.
	codeOrComment = regexp.MustCompile("(?s)<!--.*?-->|`[^`\n]+`")
	anyReference  = regexp.MustCompile(referenceForm)
)

const referenceForm = `(?:[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+)?#[0-9]+|https?://[^\s/]+/[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+/(?:issues|pull)/[0-9]+`

// references returns the keys of the issues named in the text as dependencies, in order of appearance. It ignores code
// and quotations.
func references(in api.Place, host, text string) (keys []string) {
	text = codeOrComment.ReplaceAllString(strings.ReplaceAll(text, "\r\n", "\n"), "")
	lines := strings.Split(text, "\n")
	for len(lines) > 0 && len(keys) < mostReferences {
		at := command.FirstOwnLine(lines)
		if at >= len(lines) {
			break
		}
		line := lines[at]
		lines = lines[at+1:]
		var found []string
		for _, m := range dependsLine.FindAllStringSubmatch(line, -1) {
			found = append(found, anyReference.FindAllString(m[1], -1)...)
		}
		if m := taskItem.FindStringSubmatch(line); m != nil {
			found = append(found, m[1])
		}
		for _, f := range found {
			if key := keyOf(in, host, f); key != "" && !strings.EqualFold(key, in.Key()) &&
				!slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	return keys[:min(len(keys), mostReferences)]
}

// keyOf parses "#1", "owner/name#1" and the URL of an issue or pull request. It returns "" for other texts.
func keyOf(in api.Place, host, ref string) string {
	if _, path, ok := strings.Cut(ref, "://"); ok {
		parts := strings.Split(path, "/") // host, owner, name, "issues" or "pull", number
		if !strings.EqualFold(parts[0], host) {
			return ""
		}
		ref = parts[1] + "/" + parts[2] + "#" + parts[4]
	}
	if strings.HasPrefix(ref, "#") {
		ref = in.FullName() + ref
	}
	p, err := api.ParseKey(ref)
	if err != nil {
		return ""
	}
	return p.Key()
}

// Limits on the cache of looked-up issues. It keeps a result for lookedFor, unless a poll shows a change sooner.
const (
	lookedFor  = 30 * time.Minute
	mostLooked = 20_000
)

// looked is a cached result: the open issues and pull requests in a list, or under a single key.
type looked struct {
	open []string
	at   time.Time
}

// ErrLater means that an issue needs more lookups than are permitted now. A later call continues with the cached
// results.
var ErrLater error = api.Transient("its dependencies will be looked up later", nil)

// openAt returns the open issues under a name, which is the key of an issue or of a list. If the cache does not have a
// recent result, openAt decrements *left and calls ask, which sends a request. Once half of the hour's requests have
// been used, openAt accepts older results instead of calling ask, because the director's work needs the remaining
// requests.
func (c *Inbox) openAt(name string, left *int, ask func() ([]string, error)) ([]string, error) {
	name = strings.ToLower(name)
	scarce := c.conn.Scarce()
	if l, ok := c.looked.Get(name); ok && (scarce || time.Since(l.at) < lookedFor) {
		return l.open, nil
	}
	if scarce || *left <= 0 {
		return nil, ErrLater
	}
	*left--
	open, err := ask()
	if err != nil && !api.IsGone(err) {
		return nil, err
	}
	c.looked.Put(name, looked{open, time.Now()})
	return open, nil
}

// noteState caches the state of an issue or a pull request from a poll.
func (c *Inbox) noteState(key, state string) {
	l := looked{at: time.Now()}
	if state == "open" {
		l.open = []string{key}
	}
	c.looked.Put(strings.ToLower(key), l)
}

// knownClosed reports whether an issue is known to be closed.
func (c *Inbox) knownClosed(key string) bool {
	l, ok := c.looked.Get(strings.ToLower(key))
	return ok && len(l.open) == 0 && time.Since(l.at) < lookedFor
}

// Blockers returns the open issues that must be closed before work on an issue begins. They are GitHub's blocking
// issues, sub-issues, and issues named in the text after "blocked by" or "depends on", or in an unchecked task list
// item. Issues that the credential cannot read do not block. Blockers does not send requests for an issue without
// dependencies. It sends at most *left requests, and returns ErrLater if it would need more.
func (c *Inbox) Blockers(ctx context.Context, i tracker.Issue, left *int) (keys []string, err error) {
	p, err := api.ParseKey(i.Key)
	if err != nil {
		return nil, err
	}
	for _, list := range []struct {
		any  bool
		path string
	}{{i.BlockedBy, "dependencies/blocked_by"}, {i.SubIssues, "sub_issues"}} {
		if !list.any {
			continue
		}
		open, err := c.openAt(i.Key+"/"+list.path+"@"+api.Format(i.UpdatedAt), left, func() ([]string, error) {
			return c.openIn(ctx, p, list.path)
		})
		if err != nil {
			return nil, err
		}
		for _, key := range open {
			if !c.knownClosed(key) {
				keys = append(keys, key)
			}
		}
	}
	for _, key := range references(p, c.conn.WebHost(), i.Body) {
		if slices.ContainsFunc(keys, func(k string) bool { return strings.EqualFold(k, key) }) {
			continue
		}
		other, err := api.ParseKey(key)
		if err != nil {
			continue
		}
		open, err := c.openAt(key, left, func() ([]string, error) {
			raw, err := c.read.RawIssue(ctx, gate.Reads, other)
			switch {
			case api.KindOf(err) == api.KindPermanent: // we cannot see it, so it does not block
				return nil, nil
			case err != nil || raw.GetState() != "open":
				return nil, err
			}
			return []string{key}, nil
		})
		if err != nil {
			return nil, err
		}
		keys = append(keys, open...)
	}
	slices.Sort(keys)
	return slices.Compact(keys), nil
}

// openIn returns the open issues in a list that belongs to an issue, such as "sub_issues".
func (c *Inbox) openIn(ctx context.Context, p api.Place, list string) (open []string, err error) {
	path := fmt.Sprintf("repos/%s/%s/issues/%d/%s", p.Owner, p.Repo, p.Number, list)
	raw, _, err := c.read.ReadIssues(ctx, gate.Reads, path, url.Values{"per_page": {strconv.Itoa(api.PageSize)}})
	for _, r := range raw {
		if at, err := tracker.PlaceOf(&r.Issue); err == nil {
			c.noteState(at.Key(), r.GetState())
			if r.GetState() == "open" {
				open = append(open, at.Key())
			}
		}
	}
	return open, err
}
