package director

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"retake/internal/github/githubtest"
)

// rests plays an agent that works until it is stopped.
func rests(ctx context.Context, _ *fakeWorker) int {
	<-ctx.Done()
	return 1
}

// comment waits for a comment with these words, and returns it.
func (s *harness) comment(key, says string) (found githubtest.Comment) {
	s.t.Helper()
	s.until("a comment that says "+says, func() bool {
		for _, c := range s.github.Issue(key).Comments {
			if strings.Contains(c.Body, says) {
				found = c
			}
		}
		return found.ID != 0
	})
	return found
}

// asksOnce asks in its first attempt, and works in the next one after any answer.
func asksOnce(ctx context.Context, a *fakeWorker) int {
	if a.plan.Attempt > 1 {
		return a.work(ctx)
	}
	return asks(ctx, a)
}

// newAsked returns a running harness with an issue that waits for the answer to its worker's question.
func newAsked(t *testing.T,
	play func(context.Context, *fakeWorker) int,
) (s *harness, key string, question githubtest.Comment) {
	t.Helper()
	s = newHarness(t, play)
	key = s.github.CreateIssue(repo, "octocat", "Write a report", "", "agent-task")
	s.start()
	s.until("blocked", s.inState(key, "Blocked"))
	question = s.comment(key, "Format A or B?")
	s.until("labelled", s.labelled(key, "agent-blocked"))
	return s, key, question
}

// failPushes lets every push fail from now on.
func (s *harness) failPushes(f githubtest.Fault) {
	f = f.OnPush()
	f.Times = 100_000
	must(s.t, s.github.Inject(f))
}

// A person removes agent-claimed and adds agent-task while the worker is being stopped. That is a new request, and the
// director carries it out.
func TestOfferedAnewWhileItIsReleased(t *testing.T) {
	t.Parallel()
	s := newHarness(t, nil)
	s.runtime.play = func(ctx context.Context, a *fakeWorker) int {
		if s.runtime.begun() > 1 {
			return a.work(ctx)
		}
		return rests(ctx, a)
	}
	key := s.github.CreateIssue(repo, "octocat", "Add a frobnicator", "please", "agent-task")
	s.start()
	s.until("running", s.inState(key, "Running"))
	s.github.RemoveLabel(key, "octocat", "agent-claimed")
	s.github.AddLabel(key, "octocat", "agent-task")
	s.until("review", s.labelled(key, "agent-review"))
	if n := s.runtime.begun(); n != 2 {
		t.Errorf("%d attempts, want one of each claim", n)
	}
}

// A person deletes the question before the first answer. Commands still count.
func TestDeletedQuestionIsAnswered(t *testing.T) {
	t.Parallel()
	s, key, question := newAsked(t, asks)
	s.github.DeleteComment(key, "octocat", question.ID)
	command := s.github.AddComment(key, "octocat", "/agent retry B")
	s.until("acknowledged", s.reacted(key, command, "+1"))
	s.until("review", s.labelled(key, "agent-review"))
	if n := s.runtime.begun(); n != 2 {
		t.Errorf("%d attempts, want two", n)
	}
}

// All our comments are deleted while the issue is blocked. An answer still continues the task, and the director
// writes the claim's comment again.
func TestDeletedClaimGoesOn(t *testing.T) {
	t.Parallel()
	s, key, _ := newAsked(t, asks)
	for _, c := range s.github.Issue(key).Comments {
		s.github.DeleteComment(key, "octocat", c.ID)
	}
	command := s.github.AddComment(key, "octocat", "/agent retry B")
	s.until("acknowledged", s.reacted(key, command, "+1"))
	s.until("review", s.labelled(key, "agent-review"))
	s.comment(key, "retake:claim")
}

// A person changes the nonce in the marker of the claim comment. The same claim continues, and the delivered issue
// can be offered again.
func TestEditedMarkerIsRepaired(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		<-goOn
		return a.work(ctx)
	})
	key := s.github.CreateIssue(repo, "octocat", "Write a report", "", "agent-task")
	s.start()
	s.until("running", s.inState(key, "Running"))
	claim := s.comment(key, "is working on attempt 1")
	nonce, _, _ := strings.Cut(s.runtime.attempts()[0], "-")
	s.github.EditComment(key, "octocat", claim.ID, strings.ReplaceAll(claim.Body, nonce, "aaaabbbb"))
	close(goOn)
	s.until("review", s.labelled(key, "agent-review"))
	s.until("gone", s.inState(key, "gone"))
	if c := s.github.Issue(key).Comments; len(c) != 1 || !strings.Contains(c[0].Body, nonce) ||
		!strings.Contains(c[0].Body, `"ended":"delivered"`) {
		t.Errorf("comments %+v; want the one of the claim, ended", c)
	}
	s.github.AddLabel(key, "octocat", "agent-task")
	s.until("a second claim", func() bool { return s.runtime.begun() == 2 })
	s.until("delivered again", func() bool { return s.labelled(key, "agent-review")() && s.inState(key, "gone")() })
}

// The issue is transferred or deleted while its work is being delivered. The task ends without a question.
func TestIssueLeavesInDelivery(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(s *harness, key string){
		"transferred": func(s *harness, key string) { s.github.Transfer(key, "acme/gadgets") },
		"deleted":     func(s *harness, key string) { s.github.Delete(key) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newHarness(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) })
			must(t, s.github.AddRepo("acme/gadgets", "", nil))
			s.failPushes(githubtest.ServerError(http.StatusInternalServerError))
			key := s.github.CreateIssue(repo, "octocat", "Write a report", "", "agent-task")
			s.start()
			s.until("a delivery that fails", func() bool {
				return s.state(key) == "Delivering" && s.logs.FilterMessage("effect failed").Len() > 0
			})
			leave(s, key)
			s.github.Repair()
			s.until("gone", s.inState(key, "gone"))
			if v := s.verdicts(key); len(v) != 0 {
				t.Errorf("verdicts %q, want none, because no question is open", v)
			}
			if got := s.transitions(key, "Blocked"); len(got) > 0 {
				t.Errorf("the task was blocked: %q", got)
			}
		})
	}
}

// A person adds agent-task to an issue that was delivered as a branch. That begins a new claim.
func TestDeliveredIssueIsOfferedAgain(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) })
	key := s.github.CreateIssue(repo, "octocat", "Write a report", "", "agent-task")
	s.start()
	s.until("review", s.labelled(key, "agent-review"))
	s.github.AddLabel(key, "octocat", "agent-task") // maybe before the outcome of the delivery is in the journal
	s.until("a second claim", func() bool { return s.runtime.begun() == 2 })
	s.until("delivered again", func() bool { return s.labelled(key, "agent-review")() && s.inState(key, "gone")() })
	if a, b := strings.Split(s.runtime.attempts()[0], "-")[0], strings.Split(s.runtime.attempts()[1], "-")[0]; a == b {
		t.Errorf("attempts %q of one claim, want two claims", s.runtime.attempts())
	}
}

// A person removes the label and adds it again in the middle of the claim.
func TestLabelTakenAndPutBackWhileClaiming(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) })
	s.config.RateLimits.GitHub.MinBetweenWrites = 500 * time.Millisecond
	key := s.github.CreateIssue(repo, "octocat", "Write a report", "", "agent-task")
	s.start()
	s.until("claiming", func() bool { return slices.Contains(s.labels(key), "agent-claimed") })
	s.github.RemoveLabel(key, "octocat", "agent-claimed")
	s.github.AddLabel(key, "octocat", "agent-task")
	began := time.Now()
	s.until("delivered", func() bool { return s.labelled(key, "agent-review")() && s.inState(key, "gone")() })
	t.Logf("after %s", time.Since(began).Round(time.Second))
	claims := 0
	for _, c := range s.github.Issue(key).Comments {
		if strings.Contains(c.Body, "retake:claim") {
			claims++
		}
	}
	if claims != 1 {
		t.Errorf("%d claim comments, want one", claims)
	}
}

// A hundred comments arrive at once, and one of them is a command. The command counts once, and the agent gets the text
// of the others as far as there is room.
func TestAHundredCommentsAtOnce(t *testing.T) {
	t.Parallel()
	s, key, _ := newAsked(t, asksOnce)
	var command int64
	for n := range 100 {
		if n == 50 {
			command = s.github.AddComment(key, "octocat", "/agent retry B")
			continue
		}
		who := fmt.Sprintf("passerby-%d", n%30)
		s.github.AddUser(who, "")
		s.github.AddComment(key, who, fmt.Sprintf("me, too (%d)", n))
	}
	s.until("acknowledged", s.reacted(key, command, "+1"))
	s.until("review", s.labelled(key, "agent-review"))
	if n := s.runtime.begun(); n != 2 {
		t.Errorf("%d attempts, want two", n)
	}
}

// GitHub refuses pushes with status 500. The work waits, the comment shows that, and after a while the director asks
// a person. The answer delivers the same work, without another attempt.
func TestDeliveryThatFailsIsAsked(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) })
	s.config.Timeouts.Delivery = 6 * time.Second
	s.failPushes(githubtest.ServerError(http.StatusInternalServerError))
	key := s.github.CreateIssue(repo, "octocat", "Write a report", "", "agent-task")
	s.start()
	s.comment(key, "cannot be delivered yet")
	s.until("blocked", s.inState(key, "Blocked"))
	s.until("labelled", s.labelled(key, "agent-blocked"))
	question := s.comment(key, "retake:blocked")
	if !strings.Contains(question.Body, "/agent resume") || !strings.Contains(question.Body, "done and kept") {
		t.Errorf("the question does not mention the kept work and the next step:\n%s", question.Body)
	}
	s.github.Repair()
	s.github.AddComment(key, "octocat", "/agent retry")
	s.until("review", s.labelled(key, "agent-review"))
	if n := s.runtime.begun(); n != 1 {
		t.Errorf("%d attempts, want one", n)
	}
}

// holdsEdits holds the first edit with these words until its sender cancels it.
type holdsEdits struct {
	words string
	held  atomic.Bool
}

func (h *holdsEdits) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPatch || strings.HasSuffix(r.URL.Path, "/graphql") {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		if strings.Contains(string(body), h.words) && h.held.CompareAndSwap(false, true) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	return http.DefaultTransport.RoundTrip(r)
}

// Two deliveries fail. The next try of the first one cancels the edit of its comment. Later edits
// mention the kept work on both issues.
func TestDeliveriesThatFailAreBothMentioned(t *testing.T) {
	t.Parallel()
	const words = "cannot be delivered yet"
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) })
	edits := &holdsEdits{words: words}
	s.transport = edits
	s.failPushes(githubtest.ServerError(http.StatusInternalServerError))
	keys := []string{
		s.github.CreateIssue(repo, "octocat", "Write a report", "", "agent-task"),
		s.github.CreateIssue(repo, "octocat", "Write a letter", "", "agent-task"),
	}
	s.start()
	for _, key := range keys {
		s.comment(key, words)
	}
	if !edits.held.Load() {
		t.Error("no edit was cancelled")
	}
}

// A claim stopped halfway and was forgotten. The issue has both labels but lacks a comment. The director offers it
// again as soon as every claim must be over, without waiting for the next full poll.
func TestHalfAClaimIsGivenBack(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) })
	key := s.github.CreateIssue(repo, "octocat", "Add a frobnicator", "please", "agent-task")
	s.github.AddLabel(key, "retake-bot", "agent-claimed")
	event := func(id int, name, login string, ago time.Duration) string {
		return fmt.Sprintf(`{"id":%d,"event":"labeled","label":{"name":%q},"actor":{"login":%q},"created_at":%q}`,
			id, name, login, time.Now().Add(-ago).UTC().Format(time.RFC3339))
	}
	events := "[" + event(1, "agent-task", "octocat", time.Hour) + "," + event(2, "agent-claimed", "retake-bot",
		58*time.Second) + "]"
	must(t, s.github.Inject(githubtest.Fault{Status: 200, Body: events, Times: 2}.On("GET", "/issues/1/events")))
	s.start()
	s.until("delivered", s.labelled(key, "agent-review"))
}
