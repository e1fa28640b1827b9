package director

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"retake/internal/config"
	"retake/internal/fsm"
	"retake/internal/github/githubtest"
)

// lost removes all stored data of the server: journal, snapshots and reports.
func (s *harness) lost() {
	s.t.Helper()
	must(s.t, os.RemoveAll(filepath.Join(s.config.Director.DataDir, "bus/jetstream")))
}

// rebuiltAs checks a line of the log about an issue's rebuild.
func (s *harness) rebuiltAs(key string) (to, why string) {
	for _, e := range s.logs.FilterMessage("rebuilt").FilterField(zap.String("issue", key)).All() {
		to, _ = e.ContextMap()["to"].(string)
		why, _ = e.ContextMap()["reason"].(string)
	}
	return to, why
}

// If labels were renamed under a task, a rebuild recognises their earlier names, even when every other record of the
// issue is lost.
func TestRebuildKnowsEarlierNamesOfLabels(t *testing.T) {
	t.Parallel()
	s := newHarness(t, asks)
	s.config.Journal.OnDamage = config.OnDamageRebuild
	key := s.github.CreateIssue(repo, "octocat", "Ask a question", "", "agent-task")
	s.start()
	s.until("it asks", func() bool {
		return s.inState(key, fsm.Blocked.String())() &&
			s.labelled(key, "agent-blocked")()
	})
	s.stop()
	comments := len(s.github.Issue(key).Comments)

	for _, name := range []*string{
		&s.config.GitHub.Labels.Task, &s.config.GitHub.Labels.Claimed,
		&s.config.GitHub.Labels.Blocked, &s.config.GitHub.Labels.Review,
	} {
		*name = strings.Replace(*name, "agent-", "bot-", 1)
	}
	s.lost()
	must(t, os.RemoveAll(filepath.Join(s.config.Director.DataDir, "tasks")))
	s.start()
	s.until("rebuilt", s.inState(key, fsm.Blocked.String()))
	if to, why := s.rebuiltAs(key); to != fsm.Blocked.String() ||
		!strings.HasPrefix(why, "a question about the last attempt that got its label") {
		t.Errorf("rebuilt as %s: %s", to, why)
	}
	s.stop()
	s.start() // the names are also in the new journal
	s.until("as it was", s.inState(key, fsm.Blocked.String()))
	if n := len(s.github.Issue(key).Comments); n != comments {
		t.Errorf("%d comments; there were %d", n, comments)
	}
	s.github.AddComment(key, "octocat", "/agent retry Format A")
	s.until("only labels with the new name", s.labelled(key, "bot-review"))
}

// A person deletes the marker of a claim's comment, and the journal is lost. The claim continues, in the same
// comment.
func TestRebuildKeepsAClaimWithoutItsMarker(t *testing.T) {
	t.Parallel()
	s := newHarness(t, asks)
	s.config.Journal.OnDamage = config.OnDamageRebuild
	key := s.github.CreateIssue(repo, "octocat", "Ask a question", "", "agent-task")
	s.start()
	s.until("it asks", func() bool {
		return s.inState(key, fsm.Blocked.String())() &&
			s.labelled(key, "agent-blocked")()
	})
	s.until("its comment mentions the question",
		func() bool { return strings.Contains(s.github.Issue(key).Comments[0].Body, "is waiting for an answer") })
	s.stop()
	claim := s.github.Issue(key).Comments[0]
	_, text, _ := strings.Cut(claim.Body, "\n")
	s.github.EditComment(key, "octocat", claim.ID, text)
	s.lost()
	must(t, os.RemoveAll(filepath.Join(s.config.Director.DataDir, "tasks")))
	s.start()
	s.until("rebuilt", s.inState(key, fsm.Blocked.String()))
	s.github.AddComment(key, "octocat", "/agent retry Format A")
	s.until("delivered", s.labelled(key, "agent-review"))
	s.until("in the same comment",
		func() bool { return strings.Contains(s.github.Issue(key).Comments[0].Body, `"ended":"delivered"`) })
	if c := s.github.Issue(key).Comments; len(c) != 3 {
		t.Errorf("%d comments; want the claim, the question and the answer: %+v", len(c), c)
	}
	if made := s.runtime.attempts(); len(made) != 2 || made[0] == made[1] {
		t.Errorf("attempts %v; want two", made)
	}
}

// A rebuild waits for the end of a GitHub outage. A single unreadable issue does not delay the rebuild of others, and
// does not stop its worker.
func TestRebuildWaitsForGitHubAndForNoSingleIssue(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		if strings.HasPrefix(a.plan.Issue.Title, "Ask") {
			return asks(ctx, a)
		}
		<-goOn
		return a.work(ctx)
	})
	s.config.Journal.OnDamage, s.patience, s.firstProbe = config.OnDamageRebuild, time.Second, 200*time.Millisecond
	asked, runs := s.github.CreateIssue(repo, "octocat", "Ask a question", "", "agent-task"), s.github.CreateIssue(repo,
		"octocat", "Run", "", "agent-task")
	s.start()
	s.until("it asks", func() bool {
		return s.inState(asked, fsm.Blocked.String())() &&
			s.labelled(asked, "agent-blocked")()
	})
	s.until("it runs", s.inState(runs, fsm.Running.String()))
	s.stop()
	s.lost()
	must(t, s.github.Inject(githubtest.Fault{Status: http.StatusBadGateway, Times: 100000}))
	s.start()
	s.until("an outage is waited for",
		func() bool { return s.logs.FilterMessage("rebuild is waiting for GitHub").Len() > 6 })
	s.github.Repair()
	must(t, s.github.Inject(githubtest.Fault{Path: "/issues/2/comments", Status: http.StatusBadGateway, Times: 100000}))
	s.until("the others are rebuilt", s.inState(asked, fsm.Blocked.String()))
	s.until("a word about the one",
		func() bool { return s.logs.FilterMessageSnippet("could not read issue, so its state").Len() == 1 })
	s.until("the worker continues", s.inState(runs, fsm.Running.String()))
	s.github.Repair()
	close(goOn)
	s.until("and delivers", s.labelled(runs, "agent-review"))
	if n := s.runtime.begun(); n != 2 {
		t.Errorf("%d attempts; want two: %v", n, s.runtime.attempts())
	}
}

// A question was answered, and its claim was taken back before an attempt began. Then the journal is lost. The question
// does not count as open, and the issue is given back.
func TestRebuildKnowsThatAQuestionWasAnswered(t *testing.T) {
	t.Parallel()
	s := newHarness(t, asks)
	s.config.Journal.OnDamage = config.OnDamageRebuild
	key := s.github.CreateIssue(repo, "octocat", "Ask a question", "", "agent-task")
	s.start()
	s.until("it asks", func() bool {
		return s.inState(key, fsm.Blocked.String())() &&
			s.labelled(key, "agent-blocked")()
	})
	s.stop()
	s.github.AddLabel(key, "retake-bot", "agent-claimed") // as the claim after an answer does
	s.github.RemoveLabel(key, "retake-bot", "agent-blocked")
	s.github.RemoveLabel(key, "octocat", "agent-claimed")
	s.lost()
	s.start()
	s.until("given back", func() bool {
		return slices.ContainsFunc(s.github.Issue(key).Comments,
			func(c githubtest.Comment) bool { return strings.Contains(c.Body, "retake:release") })
	})
	if to, why := s.rebuiltAs(key); to != fsm.Backoff.String() || s.runtime.begun() != 1 ||
		len(s.github.Issue(key).Labels) != 0 {
		t.Errorf("rebuilt as %s: %s; attempts %v, labels %v", to, why, s.runtime.attempts(), s.github.Issue(key).Labels)
	}
}

// says posts a person's comment as soon as the director asks GitHub for the issues of a repository.
type says struct{ once func() }

func (s says) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, repo+"/issues") {
		s.once()
	}
	return http.DefaultTransport.RoundTrip(r)
}

// The new journal includes answers that people give during its rebuild.
func TestRebuildHearsWhatIsSaidMeanwhile(t *testing.T) {
	t.Parallel()
	s := withReviews(newHarness(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) }))
	s.config.Journal.OnDamage = config.OnDamageRebuild
	key := s.github.CreateIssue(repo, "octocat", "Review this", "", "agent-task")
	s.start()
	s.until("in review", func() bool {
		return s.inState(key, fsm.InReview.String())() &&
			s.labelled(key, "agent-review")()
	})
	s.stop()
	s.lost()
	s.transport = says{sync.OnceFunc(func() {
		s.github.AddComment(key, "octocat", "/agent why")
		time.Sleep(1500 * time.Millisecond) // an answer takes its time, and GitHub's times are whole seconds
	})}
	s.start()
	s.until("it is answered", func() bool {
		return slices.ContainsFunc(s.github.Issue(key).Comments,
			func(c githubtest.Comment) bool { return c.Body == "/agent why" && len(c.Reactions) > 0 })
	})
}

// An attempt that only a branch shows has used its number, so the next attempt gets a higher one.
func TestRebuildCountsBranches(t *testing.T) {
	t.Parallel()
	s := newHarness(t, asks)
	s.config.Journal.OnDamage = config.OnDamageRebuild
	key := s.github.CreateIssue(repo, "octocat", "Ask a question", "", "agent-task")
	s.start()
	s.until("it asks", func() bool {
		return s.inState(key, fsm.Blocked.String())() &&
			s.labelled(key, "agent-blocked")()
	})
	s.stop()
	bare := filepath.Join(filepath.Dir(s.config.Director.DataDir), "git", repo+".git")
	out, err := exec.Command("git", "-C", bare, "branch", "retake/1-a7-unfinished", "main").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s.lost()
	must(t, os.RemoveAll(filepath.Join(s.config.Director.DataDir, "tasks")))
	for _, c := range s.github.Issue(key).Comments {
		if strings.Contains(c.Body, "retake:blocked") {
			s.github.EditComment(key, "octocat", c.ID, "(taken back)")
		}
	}
	s.start()
	s.until("it asks anew", func() bool {
		return slices.ContainsFunc(s.github.Issue(key).Comments,
			func(c githubtest.Comment) bool { return strings.Contains(c.Body, "journal was lost") })
	})
	s.github.AddComment(key, "octocat", "/agent retry Format A")
	s.until("another attempt", func() bool { return s.runtime.begun() == 2 })
	if made := s.runtime.attempts(); !slices.ContainsFunc(made,
		func(a string) bool { return strings.HasSuffix(a, "-8") }) {
		t.Errorf("attempts %v; want the first and number 8", made)
	}
}
