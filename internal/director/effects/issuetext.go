package effects

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"retake/internal/fsm"
	"retake/internal/github"
	"retake/internal/github/approval"
	"retake/internal/github/shown"
	"retake/internal/github/tracker"
)

// IssueTexts reads the issue texts that agents may see. Create it with NewIssueTexts.
type IssueTexts struct {
	github *github.Client
	log    *zap.Logger

	mu     sync.Mutex
	edited map[string]time.Time // by issue: the time of the last approval that was followed by a reported edit
}

// NewIssueTexts returns an IssueTexts without reported edits.
func NewIssueTexts(gh *github.Client, log *zap.Logger) *IssueTexts {
	return &IssueTexts{github: gh, log: log, edited: map[string]time.Time{}}
}

// Approved returns an issue with the text that a person with write access approved, without hidden passages.
func (t *IssueTexts) Approved(ctx context.Context, k fsm.IssueKey) (tracker.Issue, error) {
	issue, err := t.github.Issues.Issue(ctx, string(k))
	if err != nil {
		return issue, err
	}
	a, err := t.github.Approvals.Approved(ctx, issue)
	if err != nil {
		return issue, err
	}
	if len(a.Without) > 0 && t.isNews(issue.Key, a.At) {
		t.sayEdited(ctx, issue.Key, a)
	}
	var hidden int
	if issue.Title, issue.Body, hidden = shownText(a.Title, a.Body); hidden > 0 {
		t.log.Info("withheld an issue's hidden passages from agents", zap.String("issue", issue.Key),
			zap.Int("passages", hidden))
	}
	return issue, nil
}

// Forget removes the record of an issue's reported edits. Call it when the issue's claim has ended.
func (t *IssueTexts) Forget(k fsm.IssueKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.edited, string(k))
}

// isNews reports whether edits after this approval have not been reported yet, and marks them as reported.
func (t *IssueTexts) isNews(key string, approved time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	last, reported := t.edited[key]
	t.edited[key] = approved
	return !reported || !last.Equal(approved)
}

// sayEdited reports, in the log and on the issue, that people edited the issue after its approval.
func (t *IssueTexts) sayEdited(ctx context.Context, key string, a approval.Approval) {
	t.log.Warn("issue edited after its approval by people without write access; agents get the approved text until a "+
		"person adds the label again",
		zap.String("issue", key), zap.Strings("by", a.Without), zap.String("approved_by", a.By),
		zap.Time("approved_at", a.At))
	if err := t.github.Approvals.SayEdited(ctx, key, a); err != nil {
		t.log.Warn("could not comment on an issue that was edited after its approval", zap.String("issue", key),
			zap.Error(err))
	}
}

// shownText returns an issue's title and body as GitHub shows them, and the number of hidden passages. A note at the
// end of the body states that number.
func shownText(title, body string) (string, string, int) {
	title, n := shown.Markdown(title)
	body, more := shown.Markdown(body)
	if n += more; n > 0 {
		body = strings.TrimRight(body, "\n") + "\n\n" + leftOut(n)
	}
	return title, strings.TrimLeft(body, "\n"), n
}

func leftOut(passages int) string {
	if passages == 1 {
		return "(Retake removed 1 hidden passage, which GitHub does not show.)"
	}
	return fmt.Sprintf("(Retake removed %d hidden passages, which GitHub does not show.)", passages)
}

// withShownHints returns a copy of the order, with the passages that GitHub does not show removed from its hints.
func withShownHints(order fsm.StartOrder) *fsm.StartOrder {
	order.Hints = slices.Clone(order.Hints)
	for i, h := range order.Hints {
		text, n := shown.Markdown(h.Text)
		if n > 0 {
			text = strings.TrimRight(text, "\n") + "\n" + leftOut(n)
		}
		order.Hints[i].Text = text
	}
	return &order
}
