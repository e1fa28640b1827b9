package approval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	gh "github.com/google/go-github/v60/github"

	"retake/internal/github/api"
	"retake/internal/github/gate"
	"retake/internal/github/pages"
	"retake/internal/github/tracker"
)

// Approvals finds the approved text of an issue, and explains on the issue why agents do not work on it.
type Approvals struct {
	conn  *api.Conn
	read  *tracker.Reader
	write *tracker.Writer
	text  *pages.Text
}

// New returns an Approvals.
func New(conn *api.Conn, read *tracker.Reader, write *tracker.Writer, text *pages.Text) *Approvals {
	return &Approvals{conn, read, write, text}
}

// Approval is the approved text of an issue. A person approves it by adding the task label, for which GitHub requires
// triage rights in the repository.
type Approval struct {
	Title, Body string
	By          string    // login
	At          time.Time // whole seconds, UTC, GitHub's clock
	// Without lists, in sorted order, the people without write access who have edited the title or body since the
	// approval. The text does not include their edits.
	Without []string
}

// NotApproved is the error for an issue whose text agents must not read. Why explains the reason to people.
type NotApproved struct{ Why string }

func (e *NotApproved) Error() string { return "github: not approved: " + e.Why }

func notApproved(format string, args ...any) error {
	return &NotApproved{Why: fmt.Sprintf(format, args...)}
}

// Approved returns the text of an issue that agents may read. It is the title and body at the time when the task label
// was last added, or after a later edit by a person with write access. One request usually reads GitHub's history of
// the issue, so the director need not store the text. Approved returns a *NotApproved if the history does not show an
// approved text.
//
// If GraphQL does not return the history, the current text counts as approved if its author has write access, because
// only the author and people with write access can edit it.
func (c *Approvals) Approved(ctx context.Context, i tracker.Issue) (Approval, error) {
	p, err := api.ParseKey(i.Key)
	if err != nil {
		return Approval{}, err
	}
	x, err := c.issueHistory(ctx, i)
	if errors.Is(err, errNoHistory) {
		return c.approvedUnedited(ctx, p, i, err)
	}
	if err != nil {
		return Approval{}, err
	}
	at, err := c.approval(ctx, p, i, x.labels)
	if err != nil {
		return Approval{}, err
	}
	e := x.labels.Events[at]
	a := Approval{By: e.GetActor().GetLogin(), At: e.GetCreatedAt().UTC()}
	var title, body []string
	if a.Title, title, err = c.standing(ctx, p, x.titles(), a.At, x.labels.Self); err != nil {
		return Approval{}, err
	}
	if a.Body, body, err = c.standing(ctx, p, x.bodies(), a.At, x.labels.Self); err != nil {
		return Approval{}, err
	}
	a.Without = slices.Concat(title, body)
	slices.Sort(a.Without)
	a.Without = slices.Compact(a.Without)
	return a, nil
}

// approvedUnedited returns the current text if its author has write access. It is used if GitHub did not return the
// issue's history. noHistory is the error from the history request.
func (c *Approvals) approvedUnedited(ctx context.Context, p api.Place, i tracker.Issue, noHistory error) (Approval,
	error,
) {
	h, err := c.read.LabelHistory(ctx, gate.Completion, p)
	if err != nil {
		return Approval{}, err
	}
	at, err := c.approval(ctx, p, i, h)
	if err != nil {
		return Approval{}, err
	}
	may, err := c.read.MayWrite(ctx, p, i.Author)
	if err != nil {
		return Approval{}, err
	}
	switch {
	case !may && api.KindOf(noHistory) == api.KindTransient:
		return Approval{}, noHistory
	case !may:
		return Approval{}, notApproved("%s wrote it without write access, and GitHub does not show whether it was "+
			"edited after its approval: %s", orGhost(i.Author), api.Detail(noHistory).Message)
	}
	return Approval{
		Title: i.Title, Body: i.Body, By: h.Events[at].GetActor().GetLogin(),
		At: h.Events[at].GetCreatedAt().UTC(),
	}, nil
}

// approval returns the index of the event that approved an issue: the latest addition of the task label by a person
// with triage rights. GitHub checks these rights, except that a template or form lets any author open an issue with
// labels. So approval looks up the rights of a person who labelled their own issue.
func (c *Approvals) approval(ctx context.Context, p api.Place, i tracker.Issue, h tracker.LabelHistory) (at int,
	err error,
) {
	why := ""
	for at, e := range slices.Backward(h.Events) {
		if !h.IsTask(e, "labeled") || h.PutBack(at) {
			continue
		}
		by := e.GetActor().GetLogin()
		if by != "" && !strings.EqualFold(by, i.Author) || h.ByUs(e) {
			return at, nil
		}
		may := false
		if by != "" {
			if may, err = c.read.MayTriage(ctx, p, by); err != nil {
				return -1, err
			}
		}
		if may {
			return at, nil
		}
		if why == "" {
			why = fmt.Sprintf("%s opened it with the label %s through a template or form, but is not allowed to "+
				"label issues here", orGhost(by), h.Labels.Task)
		}
	}
	switch {
	case why != "":
		return -1, &NotApproved{Why: why}
	case time.Since(i.UpdatedAt) < tracker.EventsLag:
		return -1, api.Transient("GitHub's events do not yet show who added "+h.Labels.Task+" to "+i.Key, nil)
	}
	return -1, notApproved("GitHub does not show who added the label %s", h.Labels.Task)
}

// orGhost returns the login, or "ghost" for a deleted account, as GitHub's pages show it.
func orGhost(login string) string {
	if login == "" {
		return "ghost"
	}
	return login
}

// revision is one version of a title or body, with its editor. text is nil if GitHub does not show the version.
type revision struct {
	at   time.Time
	by   string
	text *string
}

// editorsAsked is the maximum number of permission lookups for the editors of one text. More than 20 editors are
// unlikely, because only the author and people with write access can edit.
const editorsAsked = 20

// standing returns the text of the approved revision. all is a nonempty list of revisions, oldest first. The approved
// revision is the latest revision by an editor with write access after the approval. Without such a revision, it is the
// last revision before the approval. An edit in the same second as the approval counts as later. without lists the
// editors of the revisions after the approved revision.
func (c *Approvals) standing(ctx context.Context, p api.Place, all []revision, approved time.Time,
	self string,
) (text string, without []string, err error) {
	base, asked := 0, map[string]bool{}
	for n, r := range all {
		if n > 0 && r.at.Before(approved) {
			base = n
		}
	}
	for n := len(all) - 1; n > base; n-- {
		by := all[n].by
		may := strings.EqualFold(by, self)
		if known := asked[by]; !may && !known && by != "" && len(asked) < editorsAsked {
			if may, err = c.read.MayWriteAt(ctx, p, by, all[n].at); err != nil {
				return "", nil, err
			}
			asked[by] = true
		}
		if may {
			base = n
			break
		}
		without = append(without, orGhost(by))
	}
	if all[base].text == nil {
		return "", nil, notApproved("GitHub's history does not have the approved version of the text")
	}
	return *all[base].text, without, nil
}

// OfferedByUntrusted returns a reason if only people without triage rights have added the task label to an issue, for
// example through a template, so that the issue does not count as offered. Otherwise it returns "". For trusted
// authors, OfferedByUntrusted does not send requests, because Approved checks the offer before work begins.
func (c *Approvals) OfferedByUntrusted(ctx context.Context, i tracker.Issue) (why string, err error) {
	if i.Trusted {
		return "", nil
	}
	p, err := api.ParseKey(i.Key)
	if err != nil {
		return "", err
	}
	h, err := c.read.LabelHistory(ctx, gate.Reads, p)
	if err != nil {
		return "", err
	}
	_, err = c.approval(ctx, p, i, h)
	if refused, ok := errors.AsType[*NotApproved](err); ok {
		return refused.Why, nil
	}
	return "", err
}

// issueTexts holds GitHub's history of the labels and texts of an issue.
type issueTexts struct {
	labels      tracker.LabelHistory // label and title events
	title, body string
	edited      time.Time  // time of the last edit of the body, or zero
	edits       []revision // edits of the body, oldest first
	older       bool       // edits does not contain the first version of the body
}

// titles returns the revisions of the title, oldest first.
func (x issueTexts) titles() []revision {
	var all []revision
	for _, e := range x.labels.Events {
		if e.Rename == nil {
			continue
		}
		if len(all) == 0 {
			all = append(all, revision{text: e.Rename.From})
		}
		all = append(all, revision{at: e.GetCreatedAt().Time, by: e.GetActor().GetLogin(), text: e.Rename.To})
	}
	if len(all) == 0 {
		all = append(all, revision{text: gh.String(x.title)})
	}
	return all
}

// bodies returns the revisions of the body, oldest first. If the oldest text is unknown, the first revision has no
// text.
func (x issueTexts) bodies() []revision {
	switch {
	case len(x.edits) == 0 && x.edited.IsZero():
		return []revision{{text: gh.String(x.body)}}
	case len(x.edits) == 0 || x.older:
		return append([]revision{{}}, x.edits...)
	}
	return x.edits
}
