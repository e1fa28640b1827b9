package director

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"retake/internal/director/operator"
)

// held plays workers that only work on command.
func held(t *testing.T) (s *harness, goOn chan struct{}) {
	goOn = make(chan struct{})
	s = newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		select {
		case <-goOn:
			return a.work(ctx)
		case <-ctx.Done():
			return 1
		}
	})
	return s, goOn
}

// said lists the log's messages about tasks with a changed configuration.
func (s *harness) said(key string) (out []string) {
	for _, e := range s.logs.FilterMessage("configuration of a running task changed").All() {
		if m := e.ContextMap(); m["issue"] == key {
			out = append(out, m["reason"].(string))
		}
	}
	return out
}

// refused starts the director and returns why it ends.
func (s *harness) refused() string {
	s.t.Helper()
	s.start()
	err := <-s.ended
	s.cancel = nil
	if err == nil {
		s.t.Fatal("the director did not refuse the configuration")
	}
	return err.Error()
}

// TestRepositoryTakenOffTheConfiguration checks that running work is finished and delivered, that closing an issue
// counts, and that waiting tasks are dropped without a claim.
func TestRepositoryTakenOffTheConfiguration(t *testing.T) {
	t.Parallel()
	s, goOn := held(t)
	const other = "acme/gadgets"
	must(t, s.github.AddRepo(other, filepath.Join(filepath.Dir(s.config.Director.DataDir), "seed"),
		map[string]string{"retake-bot": "write", "octocat": "write"}))
	s.config.Director.MaxWorkers = 2
	running, closed := s.github.CreateIssue(repo, "octocat", "Running", "", "agent-task"), s.github.CreateIssue(repo,
		"octocat", "Closed", "", "agent-task")
	s.start()
	s.until("both run", func() bool { return s.runtime.running(running) != "" && s.runtime.running(closed) != "" })
	waits := s.github.CreateIssue(repo, "octocat", "Waits", "", "agent-task")
	s.until("it is queued", func() bool { return s.state(waits) == "Queued" })
	s.stop()

	s.config.GitHub.Repositories, s.config.Director.MaxWorkers = []string{other}, 3
	s.start()
	s.until("it is said", func() bool { return len(s.said(running)) > 0 && len(s.said(waits)) > 0 })
	late := s.github.CreateIssue(repo, "octocat", "Late", "", "agent-task")
	s.github.Close(closed, "octocat")
	s.until("the closed one is stopped", func() bool { return s.runtime.running(closed) == "" })
	close(goOn)
	s.until("the running task is delivered", s.labelled(running, "agent-review"))
	s.until("it is polled no more", func() bool {
		return s.logs.FilterMessageSnippet("stopped polling a repository").Len() > 0
	})
	for _, key := range []string{waits, late} {
		if i := s.github.Issue(key); !slices.Equal(i.Labels, []string{"agent-task"}) || len(i.Comments) > 0 ||
			s.runtime.running(key) != "" {
			t.Errorf("%s was touched: %v, %d comments", key, i.Labels, len(i.Comments))
		}
	}
	if l := s.said(waits); !strings.Contains(l[0], "Retake drops the unclaimed issue") {
		t.Errorf("the waiting task's history: %q", l)
	}
}

// TestLabelsRenamedUnderTasks checks that a worker continues although its issue has the earlier label, which the
// director later removes with the other labels. The same applies to a new image or number of workers.
func TestLabelsRenamedUnderTasks(t *testing.T) {
	t.Parallel()
	s, goOn := held(t)
	s.config.Director.MaxWorkers = 2
	one, two := s.github.CreateIssue(repo, "octocat", "One", "", "agent-task"), s.github.CreateIssue(repo, "octocat",
		"Two", "", "agent-task")
	s.start()
	s.until("both run", func() bool { return s.runtime.running(one) != "" && s.runtime.running(two) != "" })
	s.stop()

	before := s.config.GitHub.Labels
	for _, name := range []*string{
		&s.config.GitHub.Labels.Task, &s.config.GitHub.Labels.Claimed,
		&s.config.GitHub.Labels.Blocked, &s.config.GitHub.Labels.Review,
	} {
		*name = strings.Replace(*name, "agent-", "bot-", 1)
	}
	s.config.Director.MaxWorkers, s.config.Containers.Image = 1, "retake-dev:next"
	s.start()
	s.until("it is said", func() bool { return len(s.said(one)) > 0 && len(s.said(two)) > 0 })
	for _, part := range []string{"labels were renamed", "retake-dev:next", "director.max_workers = 1"} {
		if l := s.said(one)[0]; !strings.Contains(l, part) {
			t.Errorf("not said: %s in %q", part, l)
		}
	}
	s.github.AddComment(one, "octocat", "How is it going?") // updates the issue, so that the next poll lists it
	s.github.RemoveLabel(two, "octocat", before.Claimed)
	s.until("the one without a label is stopped", func() bool { return s.runtime.running(two) == "" })
	close(goOn)
	s.until("the other is delivered", func() bool {
		return len(s.transitions(one, "Done"))+
			len(s.transitions(one, "InReview")) > 0
	})
	s.until("only labels with the new name", s.labelled(one, "bot-review"))
	s.until("no label on the other issue", s.labelled(two))
}

// waitsFor returns the text of `director tasks` about an issue.
func (s *harness) waitsFor(key string) string {
	v, err := operator.AskSnapshot(s.t.Context(), s.config.Director.DataDir)
	for _, t := range v.Tasks {
		if err == nil && t.Issue == key {
			return t.WaitsFor
		}
	}
	return ""
}

// TestWhatBecomesOfATaskIsOver checks that the message about a changed configuration of one attempt is not repeated
// for the next attempt or for another task on the same issue.
func TestWhatBecomesOfATaskIsOver(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		select {
		case <-goOn:
		case <-ctx.Done():
			return 1
		}
		if a.plan.Attempt == 1 {
			return a.failsWith(ctx, "network_transient", "read tcp: connection reset by peer")
		}
		<-ctx.Done()
		return 1
	})
	key := s.github.CreateIssue(repo, "octocat", "Task", "", "agent-task")
	s.start()
	s.until("it runs", func() bool { return s.runtime.running(key) != "" && s.state(key) == "Running" })
	s.stop()
	s.config.Containers.Image = "retake-dev:next"
	s.start()
	s.until("it is said", func() bool { return strings.Contains(s.waitsFor(key), "its attempt continues in") })
	close(goOn)
	s.until("the next attempt runs", func() bool {
		return strings.HasSuffix(s.runtime.running(key), "-2") &&
			s.state(key) == "Running"
	})
	if w := s.waitsFor(key); strings.Contains(w, "its attempt continues in") || w == "" {
		t.Errorf("of the next attempt: %q", w)
	}
}

// TestChangesThatWorkersCannotFollow checks that the director refuses another prefix or fleet while workers depend on
// the current one, with one line of advice.
func TestChangesThatWorkersCannotFollow(t *testing.T) {
	t.Parallel()
	s, goOn := held(t)
	key := s.github.CreateIssue(repo, "octocat", "Task", "", "agent-task")
	s.start()
	s.until("it runs", func() bool { return s.runtime.running(key) != "" && len(s.transitions(key, "Running")) > 0 })
	s.stop()

	was := s.config
	s.config.AgentBus.Prefix = "retake.v9"
	if err := s.refused(); !strings.Contains(err, "agent_bus.prefix") || !strings.Contains(err, "retake.v1") ||
		!strings.Contains(err, "drain") {
		t.Errorf("another prefix: %s", err)
	}
	s.config = was
	s.config.Director.Fleet = "another"
	if err := s.refused(); !strings.Contains(err, "director.fleet") || !strings.Contains(err, key) {
		t.Errorf("another fleet: %s", err)
	}
	s.config = was
	s.start()
	close(goOn)
	s.until("it is delivered", s.labelled(key, "agent-review"))
	s.until("it is over", func() bool { return len(s.transitions(key, "Done")) > 0 })
	s.stop()

	s.config.AgentBus.Prefix, s.config.Director.Fleet = "retake.v9", "another"
	again := s.github.CreateIssue(repo, "octocat", "Again", "", "agent-task")
	s.start()
	s.until("the next one is delivered", s.labelled(again, "agent-review"))
}

// showsPlan sends the commands and the watchdog of the plan, and works after goOn is closed.
func (a *fakeWorker) showsPlan(ctx context.Context, plans chan<- []string, goOn <-chan struct{}) int {
	var run []string
	for _, g := range a.plan.Stages {
		run = append(run, strings.Join(g.Run, " "))
	}
	plans <- append(run, (time.Duration(a.plan.WatchdogSeconds) * time.Second).String())
	select {
	case <-goOn:
		return a.work(ctx)
	case <-ctx.Done():
		return 1
	}
}
