package director

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus/wire"
	"retake/internal/config"
	"retake/internal/director/lead"
	"retake/internal/fsm"
	"retake/internal/github/githubtest"
)

// corruption is damage to the journal while no director runs.
type corruption struct {
	name string
	// snapshots means that the snapshots survive. loud means that the director must detect the damage, because the
	// state would differ.
	snapshots, loud bool
	do              func(t *testing.T, stream string)
}

// block changes the journal's last block file.
func block(change func(data []byte) []byte) func(t *testing.T, stream string) {
	return func(t *testing.T, stream string) {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(stream, "msgs/*.blk"))
		must(t, err)
		if len(files) == 0 {
			t.Fatal("the journal has no block")
		}
		last := files[len(files)-1]
		data, err := os.ReadFile(last)
		must(t, err)
		must(t, os.WriteFile(last, change(data), 0o600))
	}
}

func without(names ...string) func(t *testing.T, stream string) {
	return func(t *testing.T, stream string) {
		for _, name := range names {
			must(t, os.RemoveAll(filepath.Join(stream, name)))
		}
	}
}

func flipped(data []byte) []byte { data[len(data)*2/3] ^= 0x10; return data }

func garbageIndex(t *testing.T, stream string) {
	must(t, os.WriteFile(filepath.Join(stream, "msgs/index.db"), bytes.Repeat([]byte{0xa5}, 300), 0o600))
}

// corruptions are the kinds of damage that real disks, file systems and people cause.
var corruptions = []corruption{
	{
		"one bit flipped", false, true,
		func(t *testing.T, stream string) { block(flipped)(t, stream); without("msgs/index.db")(t, stream) },
	},
	{"one bit flipped, snapshot", true, false, block(flipped)},
	{"cut in the middle", false, true, block(func(data []byte) []byte { return data[:len(data)/2] })},
	{"cut in the middle, snapshot", true, false, block(func(data []byte) []byte { return data[:len(data)/2] })},
	{"zeroed in the middle", false, true, func(t *testing.T, stream string) {
		block(func(data []byte) []byte { clear(data[len(data)/2 : len(data)/2+512]); return data })(t, stream)
		without("msgs/index.db")(t, stream)
	}},
	{"blocks removed", false, true, without("msgs")},
	{"blocks removed, snapshot", true, false, without("msgs")},
	{"index garbage", false, false, garbageIndex},
	{"metadata removed", false, false, without("meta.inf", "meta.sum")},
	{"the journal's folder removed", false, true, without(".")},
	{"the journal's folder removed, snapshot", true, true, without(".")},
	{"everything of the server removed", false, true, without("../../../..")},
}

// The test has tasks in every state and applies each corruption in turn. No attempt runs twice, comments, questions
// and pull requests are not duplicated, labels stay, and a person's answer during the damage counts.
func TestEveryStateSurvivesTheLossOfTheJournal(t *testing.T) {
	t.Parallel()
	s := withReviews(newHarness(t, everyState))
	s.config.Journal.OnDamage, s.config.Director.MaxWorkers = config.OnDamageRebuild, 2
	s.config.Retry.BackoffInitial, s.config.Retry.BackoffMax = time.Hour, 2*time.Hour
	s.config.Escalation.RemindAfter = 0
	s.start()
	states := map[string]string{}
	add := func(title, state string) (key string) {
		key = s.github.CreateIssue(repo, "octocat", title, "", "agent-task")
		s.until(title+": "+state, s.inState(key, state))
		states[key] = state
		return key
	}
	review := add("Review this", fsm.InReview.String())
	asked := add("Ask a question", fsm.Blocked.String())
	waits := add("Wait for the network", fsm.Backoff.String())
	merged := add("Merge this", fsm.InReview.String())
	for _, i := range s.github.Issues(repo) {
		if i.Head == "retake/"+strings.TrimPrefix(merged, repo+"#")+"-a1" {
			must(t, s.github.Merge(i.Key, "octocat"))
		}
	}
	s.until("merged", func() bool { return s.labelled(merged)() && s.inState(merged, "gone")() })
	delete(states, merged)
	runs := add("Run for long", fsm.Running.String())
	add("Run as well", fsm.Running.String())
	add("Queue behind them", fsm.Queued.String())
	s.until("the labels agree", func() bool {
		return s.labelled(review, "agent-review")() && s.labelled(asked, "agent-blocked")() &&
			s.labelled(waits, "agent-claimed")() && s.labelled(runs, "agent-claimed")()
	})
	s.stop()
	before := s.outside()
	for _, c := range corruptions {
		s.survives(c, states, merged)
		if after := s.outside(); after != before {
			t.Fatalf("%s: outside it was\n%s\nand is\n%s", c.name, before, after)
		}
	}
	for key := range states {
		if state := states[key]; state != fsm.Queued.String() &&
			s.logs.FilterMessage("rebuilt").FilterField(zap.String("issue", key)).Len() == 0 {
			t.Errorf("no log line has the outcome of %s", key)
		}
	}

	// An answer that arrives while the journal is lost counts after the rebuild, and the work continues.
	must(t, os.RemoveAll(filepath.Join(s.config.Director.DataDir, "bus/jetstream")))
	s.github.AddComment(asked, "octocat", "/agent retry Format A")
	s.start()
	s.until("the answer is accepted", s.inState(asked, fsm.Backoff.String()))
	s.runtime.killFromOutside(s.runtime.running(runs))
	s.until("the second attempt of the task with the question", s.labelled(asked, "agent-review"))
	s.stop()
	made := s.runtime.attempts()
	if slices.Sort(made); len(slices.Compact(slices.Clone(made))) != len(made) {
		t.Errorf("an attempt ran twice: %v", made)
	}
}

// everyState plays workers that reach the state that an issue's title asks for.
func everyState(ctx context.Context, a *fakeWorker) int {
	switch kind, _, _ := strings.Cut(a.plan.Issue.Title, " "); {
	case kind == "Ask":
		return asks(ctx, a)
	case kind == "Wait" && a.plan.Attempt == 1:
		return a.failsWith(ctx, "network_transient", "connection reset by peer")
	case kind == "Run":
		<-ctx.Done()
		return 1
	}
	return a.work(ctx)
}

// survives damages the journal of a stopped director, and checks that a start brings all states back.
func (s *harness) survives(c corruption, states map[string]string, merged string) {
	s.t.Helper()
	streams, err := filepath.Glob(filepath.Join(s.config.Director.DataDir,
		"bus/jetstream/*/*/streams/RETAKE_JOURNAL"))
	if err != nil || len(streams) != 1 {
		s.t.Fatal("no stream", streams, err)
	}
	c.do(s.t, streams[0])
	if !c.snapshots {
		must(s.t, os.RemoveAll(filepath.Join(streams[0], "../OBJ_RETAKE_SNAPSHOTS")))
	}
	rebuilt, started := s.logs.FilterMessage("rebuilt the journal").Len(),
		s.logs.FilterMessage("director started").Len()
	s.start()
	s.until(c.name+": started", func() bool { return s.logs.FilterMessage("director started").Len() > started })
	for key, state := range states {
		s.until(fmt.Sprintf("%s: %s is %s", c.name, key, state), s.inState(key, state))
	}
	if s.state(merged) != "gone" {
		s.t.Errorf("%s: the merged task is %s", c.name, s.state(merged))
	}
	noticed := s.logs.FilterMessage("rebuilt the journal").Len() > rebuilt
	if c.loud && !noticed {
		s.t.Errorf("%s: not noticed", c.name)
	}
	s.t.Logf("%s: rebuilt %t", c.name, noticed)
	s.stop()
}

// outside returns the public state, with labels and comments of each issue and pull request, and every attempt that
// ever ran.
func (s *harness) outside() string {
	var b strings.Builder
	for _, i := range s.github.Issues(repo) {
		fmt.Fprintf(&b, "%s %s %v head %q:", i.Key, i.State, i.Labels, i.Head)
		for _, c := range i.Comments {
			fmt.Fprintf(&b, " %d", c.ID)
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "attempts %v\n", s.runtime.attempts())
	return b.String()
}

// failsWith reports a failure.
func (a *fakeWorker) failsWith(ctx context.Context, kind, message string) int {
	err := a.client.Report(ctx, asserted(wire.WorkerError{
		ErrorID: a.plan.WorkerID + "/CODE-1", WorkerID: a.plan.WorkerID, IssueNumber: a.plan.Issue.Number,
		Stage:   wire.StageCode,
		Attempt: a.plan.Attempt, ErrorType: kind, IsTransient: true, ShouldRetry: true, Message: message,
	}))
	if err != nil {
		return 1
	}
	return 0
}

// The command works without a director, refuses while one runs, and reports the result for each issue. A start
// continues an interrupted rebuild.
func TestRebuildCommand(t *testing.T) {
	t.Parallel()
	s := newHarness(t, asks)
	asked := s.github.CreateIssue(repo, "octocat", "Ask a question", "", "agent-task")
	s.start()
	s.until("it asks", func() bool {
		return s.inState(asked, fsm.Blocked.String())() &&
			s.labelled(asked, "agent-blocked")()
	})
	if _, _, err := Rebuild(t.Context(), s.options()); err == nil ||
		!strings.Contains(err.Error(), "another director is running on") {
		t.Errorf("while a director runs: %v", err)
	}
	s.stop()
	before := s.outside()

	tasks, aside, err := Rebuild(t.Context(), s.options())
	if err != nil || len(tasks) != 1 || tasks[0].Was != "Blocked" || tasks[0].Is != "Blocked" ||
		tasks[0].Row != "known" || tasks[0].Attempt != 1 {
		t.Fatalf("with an undamaged journal: %+v, %v", tasks, err)
	}
	if info, err := os.Stat(aside); err != nil || info.Size() == 0 {
		t.Errorf("the old journal is not kept: %v", err)
	}

	must(t, os.RemoveAll(filepath.Join(s.config.Director.DataDir, "bus/jetstream")))
	tasks, _, err = Rebuild(t.Context(), s.options())
	if err != nil || len(tasks) != 1 || tasks[0].Was != "" || tasks[0].Is != "Blocked" || tasks[0].Row != "asked" ||
		tasks[0].Asks {
		t.Fatalf("without a journal: %+v, %v", tasks, err)
	}

	// The process ends between setting aside the old journal and writing the new one's first batch. The journal
	// itself does not show this.
	must(t, os.RemoveAll(filepath.Join(s.config.Director.DataDir, "bus/jetstream")))
	must(t, os.Remove(filepath.Join(s.config.Director.DataDir, lead.MirrorFile)))
	must(t, os.WriteFile(filepath.Join(s.config.Director.DataDir, "rebuilding"), []byte("a test\n"), 0o600))
	s.start()
	s.until("rebuilt at the start", s.inState(asked, fsm.Blocked.String()))
	s.stop()
	if _, err := os.Stat(filepath.Join(s.config.Director.DataDir, "rebuilding")); err == nil {
		t.Error("the next start would rebuild again")
	}
	if after := s.outside(); after != before {
		t.Errorf("outside it was\n%s\nand is\n%s", before, after)
	}
}

// The director ended right after an answer, before acknowledging it. The answer is not carried out again, because its
// outcome answers the question.
func TestAnsweredQuestionIsNotAnsweredAgain(t *testing.T) {
	t.Parallel()
	s := withReviews(newHarness(t, asks))
	s.config.Journal.OnDamage = config.OnDamageRebuild
	asked := s.github.CreateIssue(repo, "octocat", "Ask a question", "", "agent-task")
	s.start()
	s.until("it asks", func() bool {
		return s.inState(asked, fsm.Blocked.String())() &&
			s.labelled(asked, "agent-blocked")()
	})
	must(t, s.github.Inject(githubtest.Fault{Method: "POST", Path: "/reactions", Times: 1000, Status: 500}))
	s.github.AddComment(asked, "octocat", "/agent retry B, please")
	s.until("in review", s.inState(asked, fsm.InReview.String()))
	s.stop()
	s.github.Repair()
	must(t, os.RemoveAll(filepath.Join(s.config.Director.DataDir, "bus/jetstream")))
	s.start()
	s.until("rebuilt", s.inState(asked, fsm.InReview.String()))
	seen := s.github.AddComment(asked, "octocat", "/agent why")
	s.until("a later command is answered", func() bool {
		return slices.ContainsFunc(s.github.Issue(asked).Comments,
			func(c githubtest.Comment) bool { return c.ID == seen && len(c.Reactions) > 0 })
	})
	if s.runtime.begun() != 2 {
		t.Errorf("attempts %q; want two", s.runtime.attempts())
	}
}

// A journal that is lost together with all other records counts as empty. No checkout is removed, the log gives
// advice, and following it works.
func TestAnEmptyJournalRemovesNoCheckout(t *testing.T) {
	t.Parallel()
	s := newHarness(t, asks)
	asked := s.github.CreateIssue(repo, "octocat", "Ask a question", "", "agent-task")
	s.start()
	s.until("it asks", func() bool {
		return s.inState(asked, fsm.Blocked.String())() &&
			s.labelled(asked, "agent-blocked")()
	})
	s.stop()
	must(t, os.RemoveAll(filepath.Join(s.config.Director.DataDir, "bus/jetstream")))
	must(t, os.Remove(filepath.Join(s.config.Director.DataDir, lead.MirrorFile)))
	s.start()
	s.until("a log line about the old checkouts", func() bool {
		return s.logs.FilterMessageSnippet("found checkouts that are older than the journal").Len() == 1
	})
	sessions := 2
	begun := func() bool { return s.logs.FilterMessage("director started").Len() == sessions }
	left := func(when string, want int) {
		t.Helper()
		if left, err := filepath.Glob(filepath.Join(s.config.Director.DataDir,
			"tasks/*/checkout/half.txt")); err != nil || len(left) != want {
			t.Errorf("the checkout's work %s: %v, %v; want %d", when, left, err, want)
		}
	}
	s.until("started", begun)
	sessions++
	s.runtime.breakWatch(errors.New("the engine's events have ended"))
	s.until("a second session", begun)
	left("in the second session", 1)
	sessions++
	s.stop()
	s.start()
	s.until("started again", begun)
	s.stop()
	left("after the next start", 1)
	if tasks, _, err := Rebuild(t.Context(), s.options()); err != nil || len(tasks) != 1 || tasks[0].Is != "Blocked" {
		t.Errorf("rebuilt: %+v, %v", tasks, err)
	}
	if _, err := os.Stat(filepath.Join(s.config.Director.DataDir, "checkouts.kept")); err == nil {
		t.Errorf("%s is still there", "checkouts.kept")
	}
}

// A person who threw away the journal on purpose confirms that its checkouts can be removed.
func TestKeptCheckoutsCanBeGivenUp(t *testing.T) {
	t.Parallel()
	s := newHarness(t, asks)
	s.config.Director.SharedDir = filepath.Join(t.TempDir(), "shared") // a successor also finds it there
	asked := s.github.CreateIssue(repo, "octocat", "Ask a question", "", "agent-task")
	s.start()
	s.until("it asks", s.labelled(asked, "agent-blocked"))
	s.stop()
	must(t, os.RemoveAll(filepath.Join(s.config.Director.DataDir, "bus/jetstream")))
	must(t, os.Remove(filepath.Join(s.config.Director.DataDir, lead.MirrorFile)))
	s.start()
	s.until("started", func() bool { return s.logs.FilterMessage("director started").Len() == 2 })
	s.stop()
	must(t, os.Remove(filepath.Join(s.config.Director.SharedDir, "checkouts.kept")))
	s.start()
	s.until("it is removed", s.logged("removed orphaned checkouts"))
}

// If a rebuild cannot determine the state, the director asks a person, and only once. Here an edit has removed the
// original question.
func TestRebuildAsksWhatItCannotTell(t *testing.T) {
	t.Parallel()
	s := newHarness(t, asks)
	s.config.Journal.OnDamage = config.OnDamageRebuild
	asked := s.github.CreateIssue(repo, "octocat", "Ask a question", "", "agent-task")
	s.start()
	s.until("it asks", func() bool {
		return s.inState(asked, fsm.Blocked.String())() &&
			s.labelled(asked, "agent-blocked")()
	})
	s.stop()
	for _, c := range s.github.Issue(asked).Comments {
		if strings.Contains(c.Body, "retake:blocked") {
			s.github.EditComment(asked, "octocat", c.ID, "(taken back)")
		}
	}
	for range 2 {
		must(t, os.RemoveAll(filepath.Join(s.config.Director.DataDir, "bus/jetstream")))
		s.start()
		s.until("it asks anew", func() bool {
			n := 0
			for _, c := range s.github.Issue(asked).Comments {
				if strings.Contains(c.Body, "journal was lost") {
					n++
				}
			}
			return n == 1 && s.inState(asked, fsm.Blocked.String())() && s.labelled(asked, "agent-blocked")()
		})
		s.stop()
	}
	if made := s.runtime.attempts(); len(made) != 1 {
		t.Errorf("attempts %v; want the one", made)
	}
}
