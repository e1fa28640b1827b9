package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"retake/internal/github/githubtest"
	"retake/internal/testbed"
)

// issue is an issue for the director.
type issue struct {
	key     string
	part    part
	merges  bool // people merge the delivered work
	waits   bool // the first question stays unanswered until the reminder
	deletes bool // people delete the question before they answer
	answers int  // number of answers to questions
	acts    int  // number of restarts by people; each may cost attempts, comments and labels
	gone    bool // people have closed or withdrawn the issue
}

// open creates an issue with a random task.
func (w *world) open(r *rand.Rand) *issue {
	first := ""
	if n := r.IntN(100); n < 15 {
		first = "fails"
	} else if n < 30 {
		first = "asks"
	}
	return w.openAs(r, first)
}

// waits is like the outcome "asks", but people answer the question only after the reminder.
const waits = "asks, and waits"

// openAs opens an issue with the given outcome of its first attempt.
func (w *world) openAs(r *rand.Rand, first string) *issue {
	return openPart(w, r, part{Seconds: 1 + 3*r.Float64(), First: first})
}

// openPart opens an issue with the task p.
func openPart(w *world, r *rand.Rand, p part) *issue {
	late := p.First == waits
	if late {
		p.First = "asks"
	}
	i := &issue{waits: late, part: p, merges: r.IntN(2) == 0, deletes: r.IntN(4) == 0}
	i.key = w.github.CreateIssue(repository, testbed.Person, "Work for the agent", "Please.\n\n"+i.part.line()+"\n",
		testbed.LabelTask)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.issues = append(w.issues, i)
	return i
}

// all returns the issues that were opened.
func (w *world) all() []*issue {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.issues)
}

// ended returns "" if an issue is finished, or else the missing step or unwanted label.
func (w *world) ended(i *issue, all []githubtest.Issue) (why string) {
	now := w.github.Issue(i.key)
	for _, l := range []string{testbed.LabelTask, testbed.LabelClaimed, testbed.LabelBlocked} {
		if slices.Contains(now.Labels, l) && (l != testbed.LabelTask || !i.gone) {
			return "the issue still has the label " + l
		}
	}
	delivered := testbed.Pulls(all, i.key)
	switch {
	case i.gone:
		return ""
	case len(delivered) == 0:
		return "there is no pull request"
	case i.merges && !slices.ContainsFunc(delivered, func(p githubtest.Issue) bool { return p.MergedBy != "" }):
		return "the pull request is not merged"
	case i.merges && slices.Contains(now.Labels, testbed.LabelReview):
		return "the work was merged, but the issue still has the label " + testbed.LabelReview
	}
	return ""
}

// unended lists the unfinished issues, each with the reason from ended.
func (w *world) unended() (missing []string) {
	all := w.github.Issues(repository)
	for _, i := range w.all() {
		if why := w.ended(i, all); why != "" {
			missing = append(missing, i.key+": "+why)
		}
	}
	return missing
}

// mostAnswers is the maximum number of questions that people answer on one issue.
const mostAnswers = 6

// attend simulates people who answer questions and merge pull requests, until ctx is done.
func (w *world) attend(ctx context.Context) {
	for testbed.Pause(ctx, 500*time.Millisecond) == nil {
		all := w.github.Issues(repository)
		for _, i := range w.all() {
			now := w.github.Issue(i.key)
			asked := len(w.questions(i, now))
			if slices.Contains(now.Labels, testbed.LabelBlocked) && asked > i.answers &&
				asked <= mostAnswers && (!i.waits || asked > 1 || isReminded(now)) {
				w.answer(i, now)
			}
			for _, p := range testbed.Pulls(all, i.key) {
				if i.merges && p.State == "open" && p.MergedBy == "" &&
					slices.Contains(now.Labels, testbed.LabelReview) {
					if err := w.github.Merge(p.Key, testbed.Person); err != nil {
						w.log.add("%s: could not merge %s: %v", i.key, p.Key, err)
					}
				}
			}
		}
	}
}

// isReminded reports whether the director has repeated an unanswered question.
func isReminded(now githubtest.Issue) bool {
	return slices.ContainsFunc(now.Comments, func(c githubtest.Comment) bool {
		return c.Author == testbed.Bot && strings.HasPrefix(c.Body, testbed.MarkReminder)
	})
}

// questions returns the director's questions on an issue, including deleted ones.
func (w *world) questions(i *issue, now githubtest.Issue) []githubtest.Comment {
	return slices.DeleteFunc(append(w.github.Deleted(i.key), now.Comments...), func(c githubtest.Comment) bool {
		return c.Author != testbed.Bot || !strings.HasPrefix(c.Body, testbed.MarkBlocked)
	})
}

// answer answers the latest question.
func (w *world) answer(i *issue, now githubtest.Issue) {
	asked := w.questions(i, now)
	latest := asked[len(asked)-1]
	w.log.add("%s: answering the question: %s", i.key, titleOf(latest.Body))
	w.mu.Lock()
	i.answers = len(asked)
	w.mu.Unlock()
	if i.deletes {
		if err := w.deleteComment(latest.ID); err != nil {
			w.log.add("%s: could not delete the question: %v", i.key, err)
		}
	}
	w.github.AddComment(i.key, testbed.Person, "/agent retry continue")
}

// deleteComment deletes a comment as a person would on the page.
func (w *world) deleteComment(id int64) error {
	url := fmt.Sprintf("http://github%srepos/%s/issues/comments/%d", githubtest.APIPath, repository, id)
	req, err := http.NewRequest(http.MethodDelete, url, http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+w.token+testbed.Person)
	resp, err := w.github.Transport().RoundTrip(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusNoContent {
		return errors.New(resp.Status)
	}
	return nil
}

// titleOf returns the first line of a question.
func titleOf(body string) string {
	for line := range strings.Lines(body) {
		if title, ok := strings.CutPrefix(line, "### "); ok {
			return strings.TrimSpace(title)
		}
	}
	return "?"
}
