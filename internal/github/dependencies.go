package github

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	gh "github.com/google/go-github/v60/github"

	"retake/internal/github/gate"
)

// rawIssue is an issue with what go-github does not know of it.
type rawIssue struct {
	gh.Issue
	Dependencies struct {
		BlockedBy int `json:"blocked_by"` // open ones
	} `json:"issue_dependencies_summary"`
	SubIssues struct {
		Total     int `json:"total"`
		Completed int `json:"completed"`
	} `json:"sub_issues_summary"`
}

// rawIssue asks for one issue.
func (c *Client) rawIssue(ctx context.Context, l gate.Lane, p place) (*rawIssue, error) {
	req, err := c.lanes[l].NewRequest(http.MethodGet, fmt.Sprintf("repos/%s/%s/issues/%d", p.owner, p.repo, p.number),
		nil)
	if err != nil {
		return nil, permanent("%v", err)
	}
	raw := &rawIssue{}
	_, err = c.lanes[l].Do(ctx, req, raw)
	return raw, normalize(err)
}

// readIssues asks for a list of issues.
func (c *Client) readIssues(ctx context.Context, l gate.Lane, path string,
	query url.Values,
) ([]*rawIssue, *gh.Response, error) {
	req, err := c.lanes[l].NewRequest(http.MethodGet, path+"?"+query.Encode(), nil)
	if err != nil {
		return nil, nil, permanent("%v", err)
	}
	var raw []*rawIssue
	resp, err := c.lanes[l].Do(ctx, req, &raw)
	return raw, resp, normalize(err)
}

// eventsLag is for how long GitHub's events may be behind what an issue shows.
const eventsLag = time.Minute

// mostReferences bounds how many issues of one text are looked at.
const mostReferences = 20

var (
	// A line of its own or a sentence: "Blocked by #1, acme/gadgets#2 and https://github.com/acme/gadgets/issues/3".
	dependsLine = regexp.MustCompile(`(?i)\b(?:blocked by|depends on)\b:?\s+((?:` + referenceForm +
		`)(?:(?:\s*,\s*|\s+and\s+|\s*,\s*and\s+|\s+)(?:` + referenceForm + `))*)`)
	// An item of a task list that begins with an issue and is not ticked.
	taskItem = regexp.MustCompile(`^\s*[-*+] \[ \] +(` + referenceForm + `)(?:[\s,.:;)]|$)`)
	// Comments of templates, and code within a line.
	codeOrComment = regexp.MustCompile("(?s)<!--.*?-->|`[^`\n]+`")
	anyReference  = regexp.MustCompile(referenceForm)
)

const referenceForm = `(?:[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+)?#[0-9]+|https?://[^\s/]+/[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+/(?:issues|pull)/[0-9]+`

// references are the issues that a text says must be done first, as keys, in their order, without those in code
// and quotations.
func references(in place, host, text string) (keys []string) {
	text = codeOrComment.ReplaceAllString(strings.ReplaceAll(text, "\r\n", "\n"), "")
	lines := strings.Split(text, "\n")
	for len(lines) > 0 && len(keys) < mostReferences {
		at := firstOwnLine(lines)
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
			if key := keyOf(in, host, f); key != "" && !strings.EqualFold(key, in.key()) &&
				!slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	return keys[:min(len(keys), mostReferences)]
}

// webHost is where people read what we ask the API for.
func (c *Client) webHost() string {
	if c.transport.base.Host == "api.github.com" {
		return "github.com"
	}
	return c.transport.base.Host
}

// keyOf reads "#1", "owner/name#1" and the address of a page at GitHub; "" for what is none.
func keyOf(in place, host, ref string) string {
	if _, path, ok := strings.Cut(ref, "://"); ok {
		parts := strings.Split(path, "/") // host, owner, name, issues or pull, number
		if !strings.EqualFold(parts[0], host) {
			return ""
		}
		ref = parts[1] + "/" + parts[2] + "#" + parts[4]
	}
	if strings.HasPrefix(ref, "#") {
		ref = in.fullName() + ref
	}
	p, err := parseKey(ref)
	if err != nil {
		return ""
	}
	return p.key()
}

// What was looked up is known for so long, unless a poll shows something else; and so much of it.
const (
	lookedFor  = 30 * time.Minute
	mostLooked = 20_000
)

// looked is what was open when it was looked at: an issue or pull request itself, or those of a list.
type looked struct {
	open []string
	at   time.Time
}

// ErrLater says that an issue has more to be looked up than may be asked for now. What was looked up is not
// asked for again.
var ErrLater error = transient("what it depends on is looked up later", nil)

// openAt returns what a look at an issue, a pull request or a list finds open. It asks if that is not known,
// and takes that off what may be asked for. Once half of the hour's requests are used it asks nothing, and what
// was known counts longer: the other half is for the work.
func (c *Client) openAt(name string, left *int, ask func() ([]string, error)) ([]string, error) {
	name = strings.ToLower(name)
	until := c.transport.scarce.Load()
	scarce := until != nil && time.Now().Before(*until)
	if l, ok := c.looked.get(name); ok && (scarce || time.Since(l.at) < lookedFor) {
		return l.open, nil
	}
	if scarce || *left <= 0 {
		return nil, ErrLater
	}
	*left--
	open, err := ask()
	if err != nil && !isGone(err) {
		return nil, err
	}
	c.looked.put(name, looked{open, time.Now()})
	return open, nil
}

// noteState remembers what a poll shows of an issue or a pull request.
func (c *Client) noteState(key, state string) {
	l := looked{at: time.Now()}
	if state == "open" {
		l.open = []string{key}
	}
	c.looked.put(strings.ToLower(key), l)
}

// knownClosed reports whether an issue is known to be closed.
func (c *Client) knownClosed(key string) bool {
	l, ok := c.looked.get(strings.ToLower(key))
	return ok && len(l.open) == 0 && time.Since(l.at) < lookedFor
}

// Blockers are the open issues that must be closed before work on an issue begins: those that GitHub knows as
// blocking it, its open sub-issues, and those that its text names after "blocked by" or "depends on", or in an
// item of a task list that is not ticked. What cannot be seen blocks nothing. An issue without any of that
// costs no request; no more requests are made than are left, and ErrLater says that they were not enough.
func (c *Client) Blockers(ctx context.Context, i Issue, left *int) (keys []string, err error) {
	p, err := parseKey(i.Key)
	if err != nil {
		return nil, err
	}
	for _, list := range []struct {
		any  bool
		path string
	}{{i.blockedBy, "dependencies/blocked_by"}, {i.subIssues, "sub_issues"}} {
		if !list.any {
			continue
		}
		open, err := c.openAt(i.Key+"/"+list.path+"@"+format(i.UpdatedAt), left, func() (open []string, err error) {
			path := fmt.Sprintf("repos/%s/%s/issues/%d/%s", p.owner, p.repo, p.number, list.path)
			raw, _, err := c.readIssues(ctx, gate.Reads, path, url.Values{"per_page": {strconv.Itoa(pageSize)}})
			for _, r := range raw {
				if at, err := placeOf(&r.Issue); err == nil {
					c.noteState(at.key(), r.GetState())
					if r.GetState() == "open" {
						open = append(open, at.key())
					}
				}
			}
			return open, err
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
	for _, key := range references(p, c.webHost(), i.Body) {
		if slices.ContainsFunc(keys, func(k string) bool { return strings.EqualFold(k, key) }) {
			continue
		}
		other, err := parseKey(key)
		if err != nil {
			continue
		}
		open, err := c.openAt(key, left, func() ([]string, error) {
			raw, err := c.rawIssue(ctx, gate.Reads, other)
			switch {
			case kindOf(err) == KindPermanent: // none of our business
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
