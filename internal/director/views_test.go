package director

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"retake/internal/director/offline"
	"retake/internal/director/operator"
	"retake/internal/fsm"
	"retake/internal/timeline"
)

// story returns the running director's story of an issue.
func (s *harness) story(key string) timeline.Task {
	s.t.Helper()
	told, err := operator.AskTask(s.t.Context(), s.config.Director.DataDir, fsm.IssueKey(key), time.Time{})
	if err != nil {
		s.t.Fatal(err)
	}
	return told
}

// One attempt fails and the director asks a person. Another succeeds. The story is the same while the director runs,
// after a restart, and from the journal without a director. Tasks, events and status agree with it.
func TestTheStoryIsTold(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		if a.plan.Issue.Number == 1 {
			return a.failsWith(ctx, "tests_failed", "--- FAIL: TestWidth (0.00s)")
		}
		return a.work(ctx)
	})
	asked := s.github.CreateIssue(repo, "octocat", "Widths", "", "agent-task")
	s.start()
	s.until("a question", s.labelled(asked, "agent-blocked"))
	done := s.github.CreateIssue(repo, "octocat", "Done", "", "agent-task")
	s.until("a delivery", s.labelled(done, "agent-review"))
	s.until("the end of the claim", func() bool { return s.state(done) == "gone" })

	told, finished := s.story(asked), s.story(done)
	checkStories(t, "as it runs", told, finished)

	s.checkViews(fsm.IssueKey(asked), fsm.IssueKey(done), told)

	s.stop()
	book, err := offline.ReadBook(t.Context(), s.config, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	alone, _ := book.Task(fsm.IssueKey(asked), time.Now())
	over, _ := book.Task(fsm.IssueKey(done), time.Now())
	checkStories(t, "from only the journal", alone, over)

	s.start()
	s.until("it answers again", func() bool {
		_, err := operator.AskTasks(t.Context(), s.config.Director.DataDir)
		return err == nil
	})
	checkStories(t, "after a restart", s.story(asked), s.story(done))

	checkOffers(t, s, done)
}

// checkStories checks the story of a question, and of a task that is done.
func checkStories(t *testing.T, what string, told, finished timeline.Task) {
	t.Helper()
	q := told.Asked
	if told.State != "Blocked" || told.Waits == "" || q == nil || q.Ask == "" ||
		!strings.HasPrefix(q.Reply, "/agent") || len(told.Can) == 0 || told.Title != "Widths" {
		t.Errorf("%s: %+v", what, told)
	}
	if len(told.Attempts) != 1 || len(told.Attempts[0].Decided) != 1 {
		t.Fatalf("%s: attempts %+v", what, told.Attempts)
	}
	if d := told.Attempts[0].Decided[0]; !strings.Contains(d.Cause, "TestWidth") || d.Rule == "" || d.Row == "" ||
		d.Action != "escalate" || !strings.Contains(d.Observed, "report") {
		t.Errorf("%s: the decision is %+v", what, d)
	}
	if finished.State != "Done" || !finished.Over || finished.Work.Branch == "" ||
		finished.Attempts[0].Outcome != timeline.OutcomeOK {
		t.Errorf("%s: the finished task: %+v", what, finished)
	}
}

// checkViews checks the other views of a question and of a task that is done.
func (s *harness) checkViews(asked, done fsm.IssueKey, told timeline.Task) {
	s.t.Helper()
	rows, err := operator.AskTasks(s.t.Context(), s.config.Director.DataDir)
	if err != nil || len(rows) != 2 || rows[1].Attempts == nil || rows[1].Events == nil ||
		rows[0].Issue != asked || rows[1].Issue != done {
		s.t.Fatalf("tasks %+v, %v; want the waiting task and the finished task", rows, err)
	}
	v, err := operator.AskSnapshot(s.t.Context(), s.config.Director.DataDir)
	if err != nil || len(v.Tasks) != 1 || v.Tasks[0].State != rows[0].State || v.Tasks[0].WaitsFor != rows[0].Waits {
		s.t.Errorf("status says %+v, tasks say %+v (%v)", v.Tasks, rows[0], err)
	}
	if _, err := operator.AskTask(s.t.Context(), s.config.Director.DataDir, "acme/widgets#99",
		time.Time{}); !errors.Is(err,
		operator.ErrNoTask) {
		s.t.Errorf("an unknown issue: %v, want ErrNoTask", err)
	}
	before, err := operator.AskTask(s.t.Context(), s.config.Director.DataDir, asked,
		told.Attempts[0].Began)
	if err != nil || before.State != "Starting" || before.Asked != nil || len(before.Attempts) != 1 ||
		len(before.Attempts[0].Decided) != 0 {
		s.t.Errorf("as of the attempt's start: %+v, %v", before, err)
	}
}

// checkOffers offers a finished issue. The director refuses the offer, unless again is set.
func checkOffers(t *testing.T, s *harness, done string) {
	t.Helper()
	offer := func(again bool) operator.TaskAnswer {
		a, err := operator.OfferIssue(t.Context(), s.config.Director.DataDir, fsm.IssueKey(done), "", again)
		must(t, err)
		return a
	}
	if a := offer(false); !strings.Contains(a.Problem, "the work on "+done+" is done") ||
		!strings.Contains(a.Problem, "director add "+done+" --again") {
		t.Errorf("the finished task is offered: %+v", a)
	}
	if a := offer(true); a.Problem != "" {
		t.Errorf("the finished task is offered again: %+v", a)
	}
}

// Followers receive every event once, in order, including where the stored journal meets live decisions.
func TestEventsAreFollowed(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) })
	first := s.github.CreateIssue(repo, "octocat", "First", "", "agent-task")
	s.start()
	s.until("a delivery", s.labelled(first, "agent-review"))
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	var got []timeline.Event
	followed := make(chan error, 1)
	go func() {
		followed <- operator.AskEvents(ctx, s.config.Director.DataDir, operator.EventFilter{Follow: true},
			func(e timeline.Event) error {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, e)
				return nil
			})
	}()
	second := s.github.CreateIssue(repo, "octocat", "Second", "", "agent-task")
	s.until("both deliveries", func() bool {
		mu.Lock()
		defer mu.Unlock()
		n := 0
		for _, e := range got {
			if e.Kind == "work_delivered" {
				n++
			}
		}
		return n == 2
	})
	cancel()
	if err := <-followed; err != nil {
		t.Error(err)
	}
	for i := 1; i < len(got); i++ {
		if !got[i].ID.After(got[i-1].ID) {
			t.Fatalf("%s comes after %s", got[i].ID, got[i-1].ID)
		}
	}
	var all []timeline.Event
	err := operator.AskEvents(t.Context(), s.config.Director.DataDir, operator.EventFilter{Issue: fsm.IssueKey(second)},
		func(e timeline.Event) error {
			all = append(all, e)
			return nil
		})
	if err != nil || len(all) < 6 ||
		slices.ContainsFunc(all, func(e timeline.Event) bool { return e.Issue != fsm.IssueKey(second) }) {
		t.Errorf("events of %s: %v, %v", second, all, err)
	}
	after := fmt.Sprint(all[2].ID)
	var rest []timeline.Event
	f := operator.EventFilter{Issue: fsm.IssueKey(second), After: all[2].ID}
	if err := operator.AskEvents(t.Context(), s.config.Director.DataDir, f,
		func(e timeline.Event) error { rest = append(rest, e); return nil }); err != nil || len(rest) < len(all)-3 ||
		rest[0].ID != all[3].ID {
		t.Errorf("after %s: %v, %v", after, rest, err)
	}
}
