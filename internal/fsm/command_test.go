package fsm

import (
	"strconv"
	"testing"
	"time"
)

// A repeated command is recognized regardless of the form of its time.
func TestCommandsAreKnownAgain(t *testing.T) {
	m := New(testConfig())
	at := epoch.Add(time.Minute)
	for _, zone := range []*time.Location{time.FixedZone("CEST", 7200), time.UTC, time.FixedZone("EST", -18000)} {
		s := CommentView{
			Task: "acme/widgets#1", By: "octocat", Command: CommandHelp,
			CommandRef: CommandRef{Comment: 7, At: at.In(zone)},
		}
		m.Step(Event{At: at, Body: CommentsSeen{Repo: "acme/widgets", Comments: []CommentView{s}}})
	}
	if len(m.hard.Commands) != 1 {
		t.Errorf("one comment was taken %d times", len(m.hard.Commands))
	}
}

// The machine recognises a repeated request by its id. Many requests do not make it forget people's comments.
func TestRequestsAreKnownAgain(t *testing.T) {
	m := New(testConfig())
	ask := func(id string, s int) []Fact {
		facts, effects := m.Step(Event{At: at(s), Body: CommentsSeen{Comments: []CommentView{{
			Task: issueKey("1"), By: "alice", Command: CommandStop, CommandRef: CommandRef{Request: id, At: at(s)},
		}}}})
		if len(effects) != 0 {
			t.Errorf("effects %v: GitHub must not get a comment", effects)
		}
		return facts
	}
	m.Step(Event{At: at(0), Body: CommentsSeen{Comments: []CommentView{{
		Task: issueKey("1"), By: "octocat",
		Command: CommandHelp, CommandRef: CommandRef{Comment: 7, At: at(0)},
	}}}})
	if _, known := m.Requested("r1"); known {
		t.Error("recognised before its request")
	}
	if facts := ask("r1", 1); len(facts) != 1 {
		t.Errorf("facts %v, want one", facts)
	}
	if refused, known := m.Requested("r1"); !known || refused != "Retake has no task on this issue" {
		t.Errorf("decided %t with %q", known, refused)
	}
	for i := range 2 * maxRequests {
		ask(strconv.Itoa(i), 2+i)
	}
	last := strconv.Itoa(2*maxRequests - 1)
	if facts := ask(last, 900); len(facts) != 0 || len(m.hard.Requests) != maxRequests || len(m.hard.Commands) != 1 {
		t.Errorf("facts %v, %d requests and %d commands are remembered", facts, len(m.hard.Requests),
			len(m.hard.Commands))
	}
}

// A run that is limited to some issues leaves the others in the queue, explains their wait, and continues existing
// claims.
func TestOnlySomeAreTaken(t *testing.T) {
	m := New(testConfig())
	mustStep(t, m, at(0), Booted{RunID: "r"})
	mustStep(t, m, at(1), oneIssue("1"))
	mustStep(t, m, at(2), EffectEnded{Task: issueKey("1"), Effect: "k1-0/claim", Claim: &ClaimResult{Ours: true}})
	state, err := m.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	cfg := testConfig()
	cfg.MaxWorkers, cfg.Only = 9, []IssueKey{"Acme/Widgets#3", issueKey("4")}
	if m = New(cfg); m.Restore(state) != nil {
		t.Fatal("not restored")
	}
	_, effects := mustStep(t, m, at(3), Booted{RunID: "r2"})
	if len(effects) != 1 || effects[0].ID != "k1-1/start" {
		t.Errorf("effects %v: existing work continues", effects)
	}
	for i, n := range []string{"2", "3"} {
		mustStep(t, m, at(4+i), oneIssue(n))
	}
	two, three := m.Task(issueKey("2")), m.Task(issueKey("3"))
	if two.State != Queued || three.State != Claiming {
		t.Errorf("#2 is %s, #3 %s", two.State, three.State)
	}
	if got := m.WaitsFor(two).For; got != "a run that includes it: this run is limited to Acme/Widgets#3, "+
		"acme/widgets#4 (director run --only)" {
		t.Errorf("#2 waits for %s", got)
	}
}

// The cursor does not pass a comment before the director has answered it. If the process ends before that, the next
// process reads the comment again and answers it.
func TestCursorWaitsForAnswers(t *testing.T) {
	m := New(testConfig())
	mustStep(t, m, at(0), Booted{})
	said := CommentsSeen{Repo: "acme/widgets", Cursor: "c1"}
	for i := range 2 {
		said.Comments = append(said.Comments, CommentView{
			Task:       issueKey("1"),
			CommandRef: CommandRef{Comment: int64(i + 1), At: at(i)}, By: "octocat", Command: CommandHelp,
		})
	}
	replies := func(effects []Effect) (ids []string) {
		for _, e := range effects {
			if e.Kind == DoReply {
				ids = append(ids, e.ID)
			}
		}
		return ids
	}
	_, effects := mustStep(t, m, at(3), said)
	if ids := replies(effects); len(ids) != 2 || m.Cursor(CommentsOf("acme/widgets")) != "" {
		t.Fatalf("replies %v, cursor %q; want two, and a cursor only after the replies", ids,
			m.Cursor(CommentsOf("acme/widgets")))
	}
	state, err := m.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if m = New(testConfig()); m.Restore(state) != nil { // the process ends, and another one begins
		t.Fatal("not restored")
	}
	mustStep(t, m, at(4), Booted{})
	_, effects = mustStep(t, m, at(5), said)
	ids := replies(effects)
	if len(ids) != 2 {
		t.Fatalf("replies of the next process: %v", ids)
	}
	mustStep(t, m, at(6), EffectEnded{Effect: ids[0]})
	if _, effects = mustStep(t, m, at(7), said); len(replies(effects)) != 0 ||
		m.Cursor(CommentsOf("acme/widgets")) != "" {
		t.Errorf("one is under way: replies %v, cursor %q", replies(effects), m.Cursor(CommentsOf("acme/widgets")))
	}
	mustStep(t, m, at(8), EffectEnded{Effect: ids[1]})
	if mustStep(t, m, at(9), said); m.Cursor(CommentsOf("acme/widgets")) != "c1" {
		t.Errorf("cursor %q", m.Cursor(CommentsOf("acme/widgets")))
	}
}
