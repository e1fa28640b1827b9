package approval

import (
	"context"
	"errors"
	"slices"
	"time"

	gh "github.com/google/go-github/v60/github"

	"retake/internal/github/api"
	"retake/internal/github/gate"
	"retake/internal/github/prose"
	"retake/internal/github/tracker"
)

// historyPages is the maximum number of requests for the history of an issue. They can return 1,000 edits of the body,
// and 1,000 changes to labels and title.
const historyPages = 10

// issueQuery asks for the latest changes to an issue's labels, title and body. GitHub's field "diff" contains the whole
// text after an edit. The first entry of an edited body contains its original text.
const issueQuery = `query($id: ID!, $edits: String, $changes: String) { node(id: $id) { ... on Issue {
  title body lastEditedAt includesCreatedEdit
  userContentEdits(first: 100, after: $edits) { pageInfo { hasNextPage endCursor } nodes { editedAt diff editor { __typename login } } }
  timelineItems(last: 100, before: $changes, itemTypes: [LABELED_EVENT, UNLABELED_EVENT, RENAMED_TITLE_EVENT]) { pageInfo { hasPreviousPage startCursor } nodes {
    __typename
    ... on LabeledEvent { createdAt actor { __typename login } label { name } }
    ... on UnlabeledEvent { createdAt actor { __typename login } label { name } }
    ... on RenamedTitleEvent { createdAt actor { __typename login } previousTitle currentTitle }
  } }
} } }`

// historyAnswer is the answer to issueQuery.
type historyAnswer struct {
	Data struct {
		Node *struct {
			Title, Body         string
			LastEditedAt        time.Time
			IncludesCreatedEdit bool
			UserContentEdits    struct {
				PageInfo struct {
					HasNextPage bool
					EndCursor   string
				}
				Nodes []struct {
					EditedAt time.Time
					Diff     *string
					Editor   graphQLActor
				}
			}
			TimelineItems struct {
				PageInfo struct {
					HasPreviousPage bool
					StartCursor     string
				}
				Nodes []timelineItem
			}
		}
	}
	Errors []struct{ Type, Message string }
}

type timelineItem struct {
	Type          string `json:"__typename"`
	CreatedAt     time.Time
	Actor         graphQLActor
	Label         struct{ Name string }
	PreviousTitle string
	CurrentTitle  string
}

// graphQLActor is the actor of an event. It is empty for a deleted account.
type graphQLActor struct {
	Type  string `json:"__typename"`
	Login string
}

// login returns the login as REST writes it, with the suffix [bot] for an App.
func (a graphQLActor) login() string {
	if a.Type == "Bot" {
		return a.Login + "[bot]"
	}
	return a.Login
}

// timelineEvents maps GraphQL timeline item types to REST event names.
var timelineEvents = map[string]string{
	"LabeledEvent": "labeled", "UnlabeledEvent": "unlabeled",
	"RenamedTitleEvent": "renamed",
}

// event converts a timeline item to the event that REST returns.
func (t timelineItem) event() *gh.IssueEvent {
	e := &gh.IssueEvent{
		Event: gh.String(timelineEvents[t.Type]), CreatedAt: &gh.Timestamp{Time: t.CreatedAt},
		Actor: &gh.User{Login: gh.String(t.Actor.login())},
	}
	if t.Type == "RenamedTitleEvent" {
		e.Rename = &gh.Rename{From: gh.String(t.PreviousTitle), To: gh.String(t.CurrentTitle)}
	} else {
		e.Label = &gh.Label{Name: gh.String(t.Label.Name)}
	}
	return e
}

// issueHistory reads the history of an issue back to its approval, usually in one request. Its error wraps errNoHistory
// if GraphQL does not return the history.
func (c *Approvals) issueHistory(ctx context.Context, i tracker.Issue) (x issueTexts, err error) {
	if x.labels, err = c.read.NoHistory(ctx, gate.Completion); err != nil {
		return x, err
	}
	variables := map[string]any{"id": i.Node}
	moreEdits, moreChanges := true, true
	for range historyPages {
		answer, err := c.askHistory(ctx, variables)
		if err != nil {
			return x, err
		}
		n := answer.Data.Node
		x.title, x.body, x.edited = n.Title, n.Body, n.LastEditedAt
		if moreEdits {
			for _, e := range n.UserContentEdits.Nodes {
				x.edits = append(x.edits, revision{e.EditedAt, e.Editor.login(), e.Diff})
			}
			moreEdits = n.UserContentEdits.PageInfo.HasNextPage
			x.older = moreEdits || len(x.edits) > 0 && !n.IncludesCreatedEdit
			if moreEdits {
				variables["edits"] = n.UserContentEdits.PageInfo.EndCursor
			}
		}
		if moreChanges {
			var events []*gh.IssueEvent
			for _, t := range n.TimelineItems.Nodes {
				events = append(events, t.event())
			}
			x.labels.Events = append(events, x.labels.Events...)
			moreChanges = n.TimelineItems.PageInfo.HasPreviousPage
			if moreChanges {
				variables["changes"] = n.TimelineItems.PageInfo.StartCursor
			}
		}
		offered := latestOffer(x.labels)
		moreChanges = moreChanges && (offered < 0 || !slices.ContainsFunc(x.labels.Events[:offered], x.labels.IsOurs))
		moreEdits = moreEdits && (offered < 0 ||
			!x.edits[len(x.edits)-1].at.Before(x.labels.Events[offered].GetCreatedAt().Time))
		if !moreEdits && !moreChanges {
			slices.Reverse(x.edits)
			slices.SortStableFunc(x.edits, func(a, b revision) int { return a.at.Compare(b.at) })
			if n := len(x.edits); !x.edited.IsZero() && (n == 0 || x.edits[n-1].at.Before(x.edited)) &&
				time.Since(x.edited) < tracker.EventsLag {
				return x, api.Transient("GitHub does not yet show how "+i.Key+" was edited", nil)
			}
			return x, nil
		}
	}
	return x, notApproved("its history has more than %d changes", historyPages*api.PageSize)
}

// latestOffer returns the index of the latest event in which a person added the task label, or -1.
func latestOffer(h tracker.LabelHistory) int {
	for at, e := range slices.Backward(h.Events) {
		if h.IsTask(e, "labeled") && !h.PutBack(at) {
			return at
		}
	}
	return -1
}

// errNoHistory is wrapped by errors that mean GraphQL did not return an issue's history.
var errNoHistory = errors.New("approval: no history")

// askHistory requests one page of the history.
func (c *Approvals) askHistory(ctx context.Context, variables map[string]any) (answer historyAnswer, err error) {
	err = c.conn.Query(ctx, gate.Completion, issueQuery, variables, &answer)
	var why string
	switch kind := api.KindOf(err); {
	case err != nil && (ctx.Err() != nil || errors.Is(err, api.ErrNotSent) || kind == api.KindRateLimited ||
		kind == api.KindUnauthorized):
		return answer, err
	case err != nil:
		why = api.Detail(err).Detail()
	case answer.Data.Node == nil && len(answer.Errors) > 0:
		why = answer.Errors[0].Type + ": " + answer.Errors[0].Message
	case answer.Data.Node == nil:
		why = "the response does not contain the issue"
	default:
		return answer, nil
	}
	failed := &api.Error{Kind: api.KindPermanent, Message: "GraphQL does not show the issue's history: " +
		prose.Clip(prose.Printable(why), api.MessageLimit), Err: errNoHistory}
	if api.KindOf(err) == api.KindTransient {
		failed.Kind = api.KindTransient
	}
	return answer, failed
}
