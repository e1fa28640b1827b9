package director

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus/wire"
	"retake/internal/director/operator"
	"retake/internal/fsm"
	"retake/internal/github/githubtest"
)

// An agent asks. The director ignores the answer of a person without write access, accepts that of a person with write
// access, and passes it to the next attempt.
func TestQuestionIsAnswered(t *testing.T) {
	t.Parallel()
	heard := make(chan []wire.Hint, 1)
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		if len(a.plan.AttemptFile.Hints) > 0 {
			heard <- a.plan.AttemptFile.Hints
			return a.work(ctx)
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
	})
	s.github.AddUser("passerby", "")
	s.config.Escalation.PlainAnswers = false // the text of a plain comment is only added to the later answer
	key := s.github.CreateIssue(repo, "octocat", "Write a report", "", "agent-task")
	s.start()
	s.until("blocked", s.labelled(key, "agent-blocked"))
	s.until("a question", func() bool {
		c := s.github.Issue(key).Comments
		return len(c) == 2 && strings.Contains(c[1].Body, "Format A or B?")
	})
	outsider := s.github.AddComment(key, "passerby", "/agent retry use format A")
	s.until("the outsider is refused", s.reacted(key, outsider, "confused"))
	s.github.AddComment(key, "octocat", "Format B is what the customers have.")
	command := s.github.AddComment(key, "octocat", "/agent retry use format B")
	s.until("review", s.labelled(key, "agent-review"))
	s.until("acknowledged", s.reacted(key, command, "+1"))
	hints := <-heard
	if len(hints) != 2 || hints[1].Text != "use format B" || hints[1].From != "octocat" {
		t.Errorf("hints %+v; want octocat's two, the last \"use format B\"", hints)
	}
}

// The thumbs-up is the whole answer to a command that is carried out. The director adds it although GitHub fails at
// first.
func TestAThumbsUpThatFailsIsGivenLater(t *testing.T) {
	t.Parallel()
	s := newHarness(t, asks)
	key := s.github.CreateIssue(repo, "octocat", "Ask a question", "", "agent-task")
	s.start()
	s.until("it asks", s.labelled(key, "agent-blocked"))
	must(t, s.github.Inject(githubtest.Fault{Method: "POST", Path: "/reactions", Status: 502}))
	command := s.github.AddComment(key, "octocat", "/agent retry B, please")
	s.until("review", s.labelled(key, "agent-review"))
	s.until("acknowledged", s.reacted(key, command, "+1"))
}

func (s *harness) reacted(key string, comment int64, content string) func() bool {
	return func() bool {
		for _, c := range s.github.Issue(key).Comments {
			if c.ID == comment && slices.Contains(c.Reactions, "retake-bot "+content) {
				return true
			}
		}
		return false
	}
}

// While paused, the director does not start new work, even after a restart. After resume it starts work again.
func TestPauseHoldsIntake(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) })
	s.start()
	dir := s.config.Director.DataDir
	s.until("paused", func() bool {
		h, err := operator.SendCommand(t.Context(), dir, fsm.Pause)
		return err == nil && h.Phase == string(fsm.PhasePaused)
	})
	s.stop()
	key := s.github.CreateIssue(repo, "octocat", "Later", "", "agent-task")
	s.start()
	s.until("queued", func() bool {
		v, err := operator.AskSnapshot(t.Context(), dir)
		return err == nil && len(v.Tasks) == 1 && v.Tasks[0].State == fsm.Queued.String() &&
			v.Director.Phase == string(fsm.PhasePaused)
	})
	if _, err := operator.SendCommand(t.Context(), dir, fsm.Resume); err != nil {
		t.Fatal(err)
	}
	s.until("review", s.labelled(key, "agent-review"))
}

// orphan creates an issue without its task label, which a claim has removed.
func (s *harness) orphan() string {
	key := s.github.CreateIssue(repo, "octocat", "Orphan", "", "agent-claimed", "agent-task")
	s.github.RemoveLabel(key, "retake-bot", "agent-task")
	return key
}

// The director gives back a stale claim of this fleet that does not belong to a task, and then works on the issue.
func TestLostJournalIsNotTheEndOfAClaim(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) })
	s.config.Timeouts.IssueClaimStale = 1 // anything is stale
	key := s.orphan()
	s.github.AddComment(key, "retake-bot",
		`<!-- retake:claim v1 {"fleet":"default","nonce":"k3v7qx2m","run":"run_1"} -->`+
			"\n**Retake** is working on this, attempt 1")
	s.start()
	s.until("review", s.labelled(key, "agent-review"))
	if c := s.github.Issue(key).Comments; len(c) < 3 || !strings.Contains(c[1].Body, "Retake-Reclaim:") {
		t.Errorf("comments %+v; want a reclaim after the old claim", c)
	}
}

// The next full poll finds an orphaned claim, and a label without a claim, and gives the issues back without a
// restart.
func TestOrphansAreGivenBackWithoutARestart(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) })
	s.config.Timeouts.IssueClaimStale, s.whole = 5*time.Second, time.Second
	s.start()
	s.until("started", func() bool { return s.logs.FilterMessage("director started").Len() > 0 })
	claimed := s.orphan()
	s.github.AddComment(claimed, "retake-bot",
		`<!-- retake:claim v1 {"fleet":"default","nonce":"k3v7qx2m","run":"run_1"} -->`+
			"\n**Retake** is working on this, attempt 1")
	labelled := s.github.CreateIssue(repo, "octocat", "A label alone", "", "agent-task")
	s.github.RemoveLabel(labelled, "retake-bot", "agent-task")
	s.github.AddLabel(labelled, "retake-bot", "agent-claimed")
	reserved := s.github.CreateIssue(repo, "octocat", "A person's label", "")
	s.github.AddLabel(reserved, "octocat", "agent-claimed")
	s.until("a log line with the next step", func() bool {
		return s.logs.FilterMessageSnippet("director journal rebuild").FilterField(zap.String("issue", claimed)).
			Len() > 0
	})
	s.until("the orphan is worked on", s.labelled(claimed, "agent-review"))
	s.until("the other, too", s.labelled(labelled, "agent-review"))
	if !s.labelled(reserved, "agent-claimed")() {
		t.Errorf("a label that a person has put on: %v", s.labels(reserved))
	}
}

// The director tries to answer a comment in a locked conversation once. It then reads later comments, without further
// requests for the locked one.
func TestACommentThatCannotBeAnsweredHoldsNothingUp(t *testing.T) {
	t.Parallel()
	s := newHarness(t, asks)
	locked := s.github.CreateIssue(repo, "octocat", "Write a report", "", "agent-task")
	key := s.github.CreateIssue(repo, "octocat", "Write another", "", "agent-task")
	s.start()
	s.until("the one asks", s.inState(locked, "Blocked"))
	s.until("the other asks", s.inState(key, "Blocked"))
	s.until("both are labelled", func() bool {
		return s.labelled(locked, "agent-blocked")() &&
			s.labelled(key, "agent-blocked")()
	})
	must(t, s.github.Inject(githubtest.Fault{
		Method: "POST", Path: `/issues/1/comments$`, Times: 1000, Status: 403,
		Body: `{"message":"Unable to create comment because issue is locked."}`,
	}))
	s.github.AddComment(locked, "octocat", "/agent retyr")
	s.until("it cannot be answered", func() bool {
		return s.logs.FilterMessage("could not reply to comment").Len() > 0
	})
	s.github.AddComment(key, "octocat", "/agent why")
	s.until("the other command is answered", s.replied(key, "is waiting for"))
	if n := s.logs.FilterMessage("could not reply to comment").Len(); n != 1 {
		t.Errorf("the first comment was tried %d times, want once", n)
	}
}

// A pull request that cannot be read does not keep others from being watched.
func TestAPullRequestThatCannotBeRead(t *testing.T) {
	t.Parallel()
	s := withReviews(newHarness(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) }))
	lost := s.github.CreateIssue(repo, "octocat", "Write a report", "", "agent-task")
	s.start()
	s.until("in review", s.inState(lost, "InReview"))
	must(t, s.github.Inject(githubtest.Fault{
		Method: "GET", Path: `/pulls/2$`, Times: 1000, Status: 404,
		Body: `{"message":"Not Found"}`,
	}))
	key := s.github.CreateIssue(repo, "octocat", "Write another", "", "agent-task")
	s.until("the other is in review", s.inState(key, "InReview"))
	s.until("a failed read", func() bool { return s.logs.FilterMessage("could not read pull request").Len() > 0 })
	for _, i := range s.github.Issues(repo) {
		if i.Head != "" && strings.Contains(i.Head, "3-") {
			must(t, s.github.Merge(i.Key, "octocat"))
		}
	}
	s.until("the merge is seen", s.inState(key, "gone"))
}
