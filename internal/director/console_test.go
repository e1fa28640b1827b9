package director

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/github/githubtest"
)

// asks plays an agent that asks, and works once it was answered.
func asks(ctx context.Context, a *fakeWorker) int {
	if len(a.plan.AttemptFile.Hints) > 0 {
		return a.work(ctx)
	}
	return askAgain(ctx, a)
}

// askAgain asks after every answer.
func askAgain(ctx context.Context, a *fakeWorker) int {
	if os.WriteFile(filepath.Join(a.checkout, "half.txt"), []byte("half of it\n"), 0o644) != nil {
		return 1
	}
	err := a.client.Report(ctx, asserted(wire.WorkerError{
		ErrorID: a.plan.WorkerID + "/CODE-1", WorkerID: a.plan.WorkerID, IssueNumber: a.plan.Issue.Number,
		Stage:   wire.StageCode,
		Attempt: a.plan.Attempt, ErrorType: "needs_human", EscalateToHuman: true, Message: "the agent asks",
		Question: "Format A or B?",
	}))
	if err != nil {
		return 1
	}
	return 0
}

// A question comes with a branch that has the work so far, and the work continues there.
func TestQuestionShowsTheWorkSoFar(t *testing.T) {
	t.Parallel()
	s := newHarness(t, asks)
	key := s.github.CreateIssue(repo, "octocat", "Write a report", "", "agent-task")
	s.start()
	s.until("blocked", s.labelled(key, "agent-blocked"))
	s.until("the branch is linked", func() bool {
		c := s.github.Issue(key).Comments
		return len(c) == 2 && strings.Contains(c[1].Body, "/tree/retake/1-a1")
	})
	if text := s.git("show", "retake/1-a1:half.txt"); strings.TrimSpace(text) != "half of it" {
		t.Errorf("pushed %q", text)
	}
	s.github.AddComment(key, "octocat", "/agent retry B")
	s.until("review", s.labelled(key, "agent-review"))
	if got := s.branches(); !slices.Equal(got, []string{"main", "retake/1-a1"}) {
		t.Errorf("branches %q; want the work on one", got)
	}
}

// Commands come from the token's own person, a writer, a reader and a bot. The director accepts commands of people
// with write access, once for each text of a comment.
func TestWhoseCommandsCount(t *testing.T) {
	t.Parallel()
	s := newHarness(t, asks)
	s.github.AddUser("reader", "")
	s.github.SetPermission(repo, "reader", "read")
	s.github.AddUser("helper[bot]", "")
	s.github.SetPermission(repo, "helper[bot]", "write")
	key := s.github.CreateIssue(repo, "octocat", "Write a report", "", "agent-task")
	s.start()
	s.until("blocked", s.labelled(key, "agent-blocked"))
	s.until("nothing is under way", s.inState(key, "Blocked"))
	reader := s.github.AddComment(key, "reader", "/agent stop")
	s.github.AddComment(key, "helper[bot]", "/agent stop")
	s.until("the reader is refused", s.reacted(key, reader, "confused"))
	why := s.github.AddComment(key, "octocat", "/agent why")
	s.until("an explanation", s.replied(key, "is waiting for"))
	s.until("why is acknowledged", s.reacted(key, why, "+1"))
	others := s.github.CreateIssue(repo, "octocat", "Another fleet's", "")
	s.github.AddComment(others, "retake-bot", `<!-- retake:claim v1 {"fleet":"other","nonce":"aaaabbbb"} -->`)
	s.github.AddComment(others, "octocat", "/agent snooze soon")
	wrong := s.github.AddComment(key, "octocat", "/agent retyr use format A")
	s.until("what was meant", s.replied(key, "`/agent retry`"))
	s.until("it is not understood", s.reacted(key, wrong, "confused"))
	if s.state(key) != "Blocked" {
		t.Fatalf("the task is %s", s.state(key))
	}
	if all := s.github.Issue(others).Comments; len(all) != 2 {
		t.Errorf("we also answered an issue of another fleet: %+v", all[2:])
	}
	s.github.EditComment(key, "octocat", wrong, "/agent snooze 2h")
	s.until("snoozed", s.inState(key, "Parked"))
	s.until("it says until when",
		func() bool { return strings.Contains(s.github.Issue(key).Comments[0].Body, "is waiting until ") })
	s.until("it is claimed, without a question", s.labelled(key, "agent-claimed"))
	s.stop()
	s.start() // it reads the comments again, and must not execute them again
	s.until("still snoozed", s.inState(key, "Parked"))
	own := s.github.AddComment(key, "retake-bot", "/agent retry use format B")
	s.until("review", s.labelled(key, "agent-review"))
	s.until("the token's owner is answered", s.reacted(key, own, "+1"))
	if n := s.runtime.begun(); n != 2 {
		t.Errorf("%d attempts, want two", n)
	}
	for _, c := range s.github.Issue(key).Comments {
		if c.Author == "retake-bot" && c.ID != own && !strings.HasPrefix(c.Body, "<!-- retake:") {
			t.Errorf("a comment of the director has no marker: %s", c.Body)
		}
	}
}

func (s *harness) replied(key, says string) func() bool {
	return func() bool {
		return slices.ContainsFunc(s.github.Issue(key).Comments, func(c githubtest.Comment) bool {
			return strings.Contains(c.Body, "retake:reply") && strings.Contains(c.Body, says)
		})
	}
}

// A person takes over a running task: its worker ends, and its work so far is on a branch that the last comment names.
func TestAPersonTakesOver(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		if os.WriteFile(filepath.Join(a.checkout, "half.txt"), []byte("half of it\n"), 0o644) != nil {
			return 1
		}
		<-ctx.Done()
		return 1
	})
	key := s.github.CreateIssue(repo, "octocat", "Write a report", "", "agent-task")
	s.start()
	s.until("running", s.inState(key, "Running"))
	take := s.github.AddComment(key, "octocat", "/agent take")
	s.until("gone", s.inState(key, "gone"))
	s.until("no labels", s.labelled(key))
	s.until("acknowledged", s.reacted(key, take, "+1"))
	if text := s.git("show", "retake/1-a1:half.txt"); strings.TrimSpace(text) != "half of it" {
		t.Errorf("pushed %q", text)
	}
	c := s.github.Issue(key).Comments
	if last := c[len(c)-1].Body; !strings.Contains(last, "octocat") || !strings.Contains(last, "/tree/retake/1-a1") {
		t.Errorf("the last comment is\n%s\nwant who took over, and the branch", last)
	}
}

// Work taken over from review is already on the branch of its pull request. The director does not push it to a second
// branch.
func TestAPersonTakesOverWhatIsInReview(t *testing.T) {
	t.Parallel()
	s := withReviews(newHarness(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) }))
	key := s.github.CreateIssue(repo, "octocat", "Add a frobnicator", "please", "agent-task")
	s.start()
	s.until("in review", s.inState(key, "InReview"))
	s.github.AddComment(key, "octocat", "/agent take")
	s.until("gone", s.inState(key, "gone"))
	if got := s.branches(); !slices.Equal(got, []string{"main", "retake/1-a1"}) {
		t.Errorf("branches %q; want that of the pull request only", got)
	}
	if c := s.github.Issue(key).Comments; !strings.Contains(c[len(c)-1].Body, "/tree/retake/1-a1)") {
		t.Errorf("the last comment is\n%s\nwant the branch of the pull request", c[len(c)-1].Body)
	}
}

// A question about work in review shows the branch of its pull request. If an attempt has added unfinished work, the
// question shows a separate branch with this work. The next delivery removes that branch.
func TestQuestionsAboutWhatIsInReview(t *testing.T) {
	t.Parallel()
	s := withReviews(newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		if a.plan.Attempt == 2 {
			a.plan.AttemptFile.Hints = nil
			return asks(ctx, a)
		}
		return a.work(ctx)
	}))
	s.config.Director.MaxRetries = 0
	key := s.github.CreateIssue(repo, "octocat", "Add a frobnicator", "please", "agent-task")
	s.start()
	pull := s.pull()
	s.until("in review", s.inState(key, "InReview"))
	last := func() string {
		c := s.github.Issue(key).Comments
		return c[len(c)-1].Body
	}
	s.github.SetCheck(pull, "lint", "failure", "work-1.txt: no newline at the end")
	s.until("blocked", s.labelled(key, "agent-blocked"))
	if !strings.Contains(last(), "/tree/retake/1-a1)") {
		t.Errorf("the question is\n%s\nwant the branch of the pull request", last())
	}
	s.github.AddComment(key, "octocat", "/agent retry mend it")
	s.until("a second question", func() bool {
		return strings.Contains(last(), "/tree/retake/1-a2-unfinished)") && s.labelled(key, "agent-blocked")()
	})
	first := s.github.Issue(pull).HeadSHA
	s.github.AddComment(key, "octocat", "/agent retry B")
	s.until("a second delivery", func() bool {
		return s.github.Issue(pull).HeadSHA != first &&
			s.inState(key, "InReview")()
	})
	if got := s.branches(); !slices.Equal(got, []string{"main", "retake/1-a1"}) {
		t.Errorf("branches %q; want that of the pull request only", got)
	}
}

// The token's own person removes the label by hand. That counts like any other person's answer.
func TestTheTokensOwnPersonTakesTheLabelOff(t *testing.T) {
	t.Parallel()
	s, key, _ := newAsked(t, asksOnce)
	s.github.RemoveLabel(key, "retake-bot", "agent-blocked")
	s.until("review", s.labelled(key, "agent-review"))
	if n := s.logs.FilterMessageSnippet("write access").Len(); n > 0 {
		t.Error("a log line reports missing write access")
	}
}

// The director repeats an unanswered question once.
func TestQuestionIsRaisedAgain(t *testing.T) {
	t.Parallel()
	s := newHarness(t, asks)
	s.config.Escalation.RemindAfter = time.Second
	key := s.github.CreateIssue(repo, "octocat", "Write a report", "", "agent-task")
	s.start()
	s.until("a reminder", func() bool { return len(s.github.Issue(key).Comments) == 3 })
	s.stop()
	s.start()
	s.until("the question is unchanged", s.inState(key, "Blocked"))
	s.until("the second start", func() bool { return s.logs.FilterMessage("director started").Len() == 2 })
	if c := s.github.Issue(key).Comments; len(c) != 3 || !strings.Contains(c[2].Body, "retake:reminder") ||
		!strings.Contains(c[2].Body, ": the agent has a question.") {
		t.Errorf("comments %+v; want the claim, the question and one reminder", c)
	}
}

// A person adds agent-task to delivered work again. That is a new task, whether the last task is over or in review.
func TestTheLabelPutBackIsANewTask(t *testing.T) {
	t.Parallel()
	s := withReviews(newHarness(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) }))
	key := s.github.CreateIssue(repo, "octocat", "Add a frobnicator", "please", "agent-task")
	s.start()
	s.until("in review", s.inState(key, "InReview"))
	s.until("labelled", s.labelled(key, "agent-review"))
	s.github.AddLabel(key, "octocat", "agent-task")
	s.until("a new claim", func() bool { return s.runtime.begun() == 2 })
	s.until("in review again", func() bool { return s.inState(key, "InReview")() && s.labelled(key, "agent-review")() })
	if a, b := strings.Split(s.runtime.attempts()[0], "-")[0], strings.Split(s.runtime.attempts()[1], "-")[0]; a == b {
		t.Errorf("attempts %q of one claim, want two claims", s.runtime.attempts())
	}
}
