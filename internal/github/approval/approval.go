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

// Approvals tells which text of an issue was approved, and says on the issue why it is left alone.
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

// Approval is the text of an issue as it was approved: by whoever put the task label on, which is for people
// with rights in the repository.
type Approval struct {
	Title, Body string
	By          string    // login
	At          time.Time // whole seconds, UTC, GitHub's clock
	// Without are those who have edited title or body since and may not write to the repository: what they
	// wrote is not in it. Sorted.
	Without []string
}

// NotApproved says why agents must not be given the text of an issue: a person has to approve it.
type NotApproved struct{ Why string }

func (e *NotApproved) Error() string { return "github: not approved: " + e.Why }

func notApproved(format string, args ...any) error {
	return &NotApproved{Why: fmt.Sprintf(format, args...)}
}

// Approved returns the text of an issue that agents may be given: title and body as they were when the task
// label was put on last, or as somebody with write access has left them since. GitHub's own history of the
// issue is what says so, in one request, so that nothing has to be remembered. What it does not show is a
// *NotApproved.
//
// Where GraphQL fails there is no such history. Then the text is taken as it is if the author may write to the
// repository: nobody else but people who may, too, can have edited it.
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

// approvedUnedited is the text as it is, of an author who may write.
func (c *Approvals) approvedUnedited(ctx context.Context, p api.Place, i tracker.Issue, noHistory error) (Approval,
	error,
) {
	h, err := c.read.LabelHistory(ctx, gate.Reads, p)
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
		return Approval{}, notApproved("%s has written it without write access, and whether it was edited after it "+
			"was approved cannot be seen: %s", orGhost(i.Author), api.Detail(noHistory).Message)
	}
	return Approval{
		Title: i.Title, Body: i.Body, By: h.Events[at].GetActor().GetLogin(),
		At: h.Events[at].GetCreatedAt().UTC(),
	}, nil
}

// approval is the event that has approved an issue: the latest labelling by somebody who may. GitHub lets only
// people with triage rights label what somebody else has written; who opens an issue may do so with a template,
// or a form, that has labels, so that an author's own right is looked up.
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
			why = fmt.Sprintf("%s has opened it with the label %s, as a template or a form lets everybody do, and "+
				"has no right to label issues here", orGhost(by), h.Labels.Task)
		}
	}
	switch {
	case why != "":
		return -1, &NotApproved{Why: why}
	case time.Since(i.UpdatedAt) < tracker.EventsLag:
		return -1, api.Transient("GitHub's events do not show yet who has put "+h.Labels.Task+" on "+i.Key, nil)
	}
	return -1, notApproved("GitHub does not show that anybody has put the label %s on it", h.Labels.Task)
}

// orGhost names an account that was deleted as GitHub does.
func orGhost(login string) string {
	if login == "" {
		return "ghost"
	}
	return login
}

// revision is one text of a title or a body, and who left it so. text is nil if GitHub does not show it.
type revision struct {
	at   time.Time
	by   string
	text *string
}

// editorsAsked bounds whose rights are looked up for one text. Besides its author only people with write access
// can edit it.
const editorsAsked = 20

// standing picks what stands of a text, oldest first and at least one: the latest that somebody with write
// access has left since the approval, else the one from before it. What was changed in the very second of the
// approval was changed after it.
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
			if may, err = c.read.MayWrite(ctx, p, by); err != nil {
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
		return "", nil, notApproved("its text as it was approved is not, or not any more, in the history that " +
			"GitHub shows")
	}
	return *all[base].text, without, nil
}

// OfferedByUntrusted says why an issue with the task label is not to be worked on: nobody with rights in the
// repository has offered it. Its author, who is not trusted, opened it with the label, as a template can do.
// Empty: it may be. Only for an author who is not trusted it costs a request; of the others Approved says it,
// before anything is begun.
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

// issueTexts is what GitHub shows of the labels and texts of an issue.
type issueTexts struct {
	labels      tracker.LabelHistory // and the changes of its title
	title, body string
	edited      time.Time  // when the body was edited last; zero: never
	edits       []revision // of the body, oldest first
	older       bool       // there are others from before
}

// titles are the texts of the title, oldest first.
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

// bodies are the texts of the body, oldest first.
func (x issueTexts) bodies() []revision {
	switch {
	case len(x.edits) == 0 && x.edited.IsZero():
		return []revision{{text: gh.String(x.body)}}
	case len(x.edits) == 0 || x.older:
		return append([]revision{{}}, x.edits...)
	}
	return x.edits
}
