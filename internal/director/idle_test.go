package director

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"retake/internal/github/githubtest"
)

const (
	issuesList   = "/repos/" + repo + "/issues"
	commentsList = issuesList + "/comments"
)

// asked returns the requests after the first n, without queries.
func (s *harness) asked(n int) []githubtest.Request {
	all := slices.Clone(s.github.Requests()[n:])
	for i := range all {
		all[i].Path, _, _ = strings.Cut(all[i].Path, "?")
	}
	return all
}

// idle returns the requests since the last one with a status other than 304.
func (s *harness) idle() (asked []githubtest.Request) {
	for _, r := range s.asked(0) {
		if r.Status != http.StatusNotModified {
			asked = nil
			continue
		}
		asked = append(asked, r)
	}
	return asked
}

// TestIdlePollsCostNothing checks that without changes or open pull requests, a director requests only the list of
// issues at each poll. Each answer is 304, which GitHub does not count. This holds without a task and while a question
// waits, except for an occasional request for the comments.
func TestIdlePollsCostNothing(t *testing.T) {
	t.Parallel()
	const polls = 100
	hundred := func(s *harness) {
		t.Helper()
		s.until("a hundred requests in a row are answered with 304, and are the list of issues", func() bool {
			n := 0
			for _, r := range s.idle() {
				if n++; r.Path != issuesList || r.Method != http.MethodGet {
					n = 0
				}
			}
			return n >= polls
		})
	}
	t.Run("without a task", func(t *testing.T) {
		t.Parallel()
		s := newHarness(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) })
		s.config.GitHub.Poll = 10 * time.Millisecond
		s.comments = time.Millisecond // without a task, the director has nothing to look for
		s.github.CreateIssue(repo, "octocat", "Nobody's business", "")
		s.start()
		hundred(s)
	})
	t.Run("a question waits", func(t *testing.T) {
		t.Parallel()
		s := newHarness(t, asks)
		// not faster: the gate allows 900 points a minute
		s.config.GitHub.Poll, s.comments = 50*time.Millisecond, time.Hour
		key := s.github.CreateIssue(repo, "octocat", "Write a report", "", "agent-task")
		s.start()
		s.until("it asks", s.labelled(key, "agent-blocked"))
		hundred(s)
	})
}

// looks returns the number of requests for the list of issues between the n-th request and the first later request for
// comments. It returns -1 if comments were not requested.
func (s *harness) looks(n int) (polls int) {
	for _, r := range s.asked(n) {
		switch r.Path {
		case issuesList:
			polls++
		case commentsList:
			return polls
		}
	}
	return -1
}

// The next poll sees a command on a blocked issue, as if each poll requested the comments. This holds for a new
// comment, an edited one, and one written while no director ran.
func TestCommentsAreSeenByTheNextPoll(t *testing.T) {
	t.Parallel()
	s := newHarness(t, asks)
	s.config.GitHub.Poll, s.comments = 200*time.Millisecond, time.Hour
	key := s.github.CreateIssue(repo, "octocat", "Write a report", "", "agent-task")
	quiet := func() bool { // the director no longer requests the comments
		last := s.idle()
		return len(last) > 5 && last[len(last)-1].Path == issuesList && last[len(last)-2].Path == issuesList
	}
	seen := func(what string, begin int, cond func() bool) {
		t.Helper()
		s.until(what, cond)
		if n := s.looks(begin); n < 1 || n > 2 { // a poll may have been under way before the comment
			t.Errorf("%s: the comments were requested after %d polls, want 1 or 2", what, n)
		}
	}
	s.start()
	s.until("it asks", s.labelled(key, "agent-blocked"))
	s.until("quiet", quiet)

	begin := len(s.github.Requests())
	comment := s.github.AddComment(key, "octocat", "/agent why")
	seen("answered", begin, s.replied(key, "is waiting for"))
	s.until("quiet again", quiet)

	begin = len(s.github.Requests())
	s.github.EditComment(key, "octocat", comment, "/agent snooze nonsense")
	seen("an edit", begin, s.reacted(key, comment, "confused"))
	s.until("quiet once more", quiet)

	s.stop()
	begin = len(s.github.Requests())
	comment = s.github.AddComment(key, "octocat", "/agent retry B")
	s.start()
	s.until("acknowledged", s.reacted(key, comment, "+1"))
	if n := s.looks(begin); n < 0 {
		t.Error("it never requested the comments")
	}
	s.until("review", s.labelled(key, "agent-review"))
}

// A list of issues may not show a new comment. The director still requests the comments of a repository with a task
// from time to time.
func TestACommentThatNoIssueShows(t *testing.T) {
	t.Parallel()
	s := newHarness(t, asks)
	s.comments = time.Second
	key := s.github.CreateIssue(repo, "octocat", "Write a report", "", "agent-task")
	s.start()
	s.until("it asks", s.labelled(key, "agent-blocked"))
	s.until("quiet", func() bool { n := len(s.idle()); return n > 1 && s.idle()[n-1].Path == issuesList })
	must(t, s.github.Inject(githubtest.Fault{
		Method: "GET", Path: issuesList + `\?.*since`, Times: 100_000,
		Status: http.StatusNotModified,
	}))
	comment := s.github.AddComment(key, "octocat", "/agent retry B")
	s.until("acknowledged", s.reacted(key, comment, "+1"))
}
