package demo

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"retake/internal/fsm"
	"retake/internal/github/githubtest"
	"retake/internal/recovery"
	"retake/internal/testbed"
)

func TestDuplicateContainers(t *testing.T) {
	one := func(action, attempt string) testbed.Event {
		return testbed.Event{Action: action, Attempt: attempt, Task: "demo/widgets#7"}
	}
	good := []testbed.Event{
		one("create", "a-1"), one("start", "a-1"),
		{Action: "create", Attempt: "b-1", Task: "x"},
		{Action: "start", Attempt: "b-1", Task: "x"},
		one("die", "a-1"), one("create", "a-2"), one("start", "a-2"), one("die", "a-2"),
	}
	for _, c := range []struct {
		name string
		all  []testbed.Event
		want []string
	}{
		{"sequentially", good, nil},
		{"recreated before its start", append(slices.Clone(good), one("create", "a-3"), one("create", "a-3"),
			one("start", "a-3")), nil},
		{
			"started twice", append(slices.Clone(good), one("start", "a-2")),
			[]string{"demo/widgets#7: the container of attempt a-2 was started twice"},
		},
		{
			"together",
			[]testbed.Event{one("start", "a-1"), one("start", "a-2"), one("die", "a-1")},
			[]string{"demo/widgets#7: attempts a-1 and a-2 ran at the same time"},
		},
	} {
		if got := duplicateContainers(c.all); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestDuplicateComments(t *testing.T) {
	said := func(author string, bodies ...string) (i githubtest.Issue, events []githubtest.Event) {
		i.Key = "demo/widgets#1"
		for n, b := range bodies {
			i.Comments = append(i.Comments, githubtest.Comment{ID: int64(n), Author: author, Body: b})
			events = append(events, githubtest.Event{Issue: i.Key, Actor: author, Event: "commented"})
		}
		return i, events
	}
	const claim, blocked = `<!-- retake:claim v1 {"nonce":"k3v9qx2m","run":"run_%d"} -->` +
		"\ntext", `<!-- retake:blocked v1 {"nonce":"k3v9qx2m"} -->` + "\ntext"
	first, second := fmt.Sprintf(claim, 1), fmt.Sprintf(claim, 2)
	for _, c := range []struct {
		name   string
		author string
		bodies []string
		want   int
	}{
		{"different", testbed.Bot, []string{first, blocked}, 0},
		{"the same", testbed.Bot, []string{first, blocked, blocked}, 2},
		{"the same claim by two runs", testbed.Bot, []string{first, second}, 2},
		{"people may repeat themselves", testbed.Person, []string{"please", "please"}, 0},
	} {
		issue, events := said(c.author, c.bodies...)
		if got := duplicateComments([]githubtest.Issue{issue}, events); len(got) != c.want {
			t.Errorf("%s: got %q, want %d", c.name, got, c.want)
		}
	}
	issue, events := said(testbed.Bot, first, blocked)
	issue.Comments = issue.Comments[:1] // the other comment was deleted after a notification
	if got := duplicateComments([]githubtest.Issue{issue}, events); len(got) != 1 {
		t.Errorf("deleted: got %q", got)
	}
}

// event is an event of the stand-in on issue n.
func event(n int, actor, what, detail string) githubtest.Event {
	return githubtest.Event{Issue: fmt.Sprintf("demo/widgets#%d", n), Actor: actor, Event: what, Detail: detail}
}

// pull is the pull request for issue 9. own is that issue, with one comment by a person and one by the director.
var (
	pull = githubtest.Issue{Key: "demo/widgets#20", Head: "retake/9-a1"}
	own  = githubtest.Issue{
		Key: "demo/widgets#9",
		Comments: []githubtest.Comment{
			{ID: 5, Author: testbed.Bot, Body: "/agent retry"},
			{ID: 6, Author: testbed.Bot, Body: "<!-- retake:claim -->"},
		},
	}
)

func on(label string) githubtest.Event  { return event(9, testbed.Bot, "labeled", label) }
func off(label string) githubtest.Event { return event(9, testbed.Bot, "unlabeled", label) }

// Events of an issue.
var (
	delivered = []githubtest.Event{
		off(testbed.LabelTask), on(testbed.LabelClaimed), on(testbed.LabelReview), off(testbed.LabelClaimed),
	}
	mended = []githubtest.Event{
		on(testbed.LabelClaimed), off(testbed.LabelReview), on(testbed.LabelReview), off(testbed.LabelClaimed),
	}
	otherwise = []githubtest.Event{
		off(testbed.LabelReview), on(testbed.LabelClaimed), on(testbed.LabelReview), off(testbed.LabelClaimed),
	}
	ended = []githubtest.Event{event(20, testbed.Person, "merged", "c0ffee"), off(testbed.LabelReview)}
)

var labelCases = []struct {
	name   string
	events []githubtest.Event
	failed int // commits of the pull request
	want   []string
}{
	{"each once", delivered, 0, nil},
	{"another issue", []githubtest.Event{
		on(testbed.LabelClaimed), event(8, testbed.Bot, "labeled", testbed.LabelClaimed),
	}, 0, nil},
	{
		"twice",
		[]githubtest.Event{on(testbed.LabelClaimed), off(testbed.LabelClaimed), on(testbed.LabelClaimed)},
		0,
		[]string{"demo/widgets#9: labeled agent-claimed"},
	},
	{
		"after an answer",
		[]githubtest.Event{
			on(testbed.LabelClaimed), event(9, testbed.Person, "commented", "1"), on(testbed.LabelClaimed),
		},
		0, nil,
	},
	{
		"twice after it",
		[]githubtest.Event{
			event(9, testbed.Person, "commented", "1"), on(testbed.LabelClaimed), on(testbed.LabelClaimed),
		},
		0,
		[]string{"demo/widgets#9: labeled agent-claimed in round 2"},
	},
	{"after an answer from our account", []githubtest.Event{
		on(testbed.LabelClaimed), event(9, testbed.Bot, "commented", "5"),
		on(testbed.LabelClaimed),
	}, 0, nil},
	{"after a comment of the director", []githubtest.Event{
		on(testbed.LabelClaimed), event(9, testbed.Bot, "commented", "6"),
		on(testbed.LabelClaimed),
	}, 0, []string{"demo/widgets#9: labeled agent-claimed"}},
	{"a check failed, and it was merged", slices.Concat(delivered, mended, ended), 1, nil},
	{"the review's label is taken off first", slices.Concat(delivered, otherwise, ended), 1, nil},
	{"mended once more than failed", slices.Concat(delivered, mended, mended), 1, []string{
		"demo/widgets#9: labeled agent-claimed in round 2", "demo/widgets#9: unlabeled agent-review in round 2",
		"demo/widgets#9: labeled agent-review in round 2", "demo/widgets#9: unlabeled agent-claimed in round 2",
	}},
	{
		"claimed again before the review",
		[]githubtest.Event{on(testbed.LabelClaimed), off(testbed.LabelClaimed), on(testbed.LabelClaimed)},
		1,
		[]string{"demo/widgets#9: labeled agent-claimed"},
	},
}

func TestDuplicateLabels(t *testing.T) {
	for _, c := range labelCases {
		failures := func(branch string) []string {
			if branch != pull.Head {
				return nil
			}
			return make([]string, c.failed)
		}
		if got := duplicateLabels([]githubtest.Issue{own, pull}, c.events, failures); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestTouchedOthers(t *testing.T) {
	issues := []githubtest.Issue{
		{Key: "demo/widgets#1"},
		{Key: "demo/widgets#3"},
		{Key: "demo/widgets#20", Head: "retake/1-a1"},
		{Key: "demo/widgets#21", Head: "mine"},
	}
	events := []githubtest.Event{
		event(1, testbed.Person, "labeled", testbed.LabelTask), event(1, testbed.Bot, "labeled", testbed.LabelClaimed),
		event(3, testbed.Person, "commented", "1"),
		event(20, testbed.Bot, "opened", ""), event(21, testbed.Person, "opened", ""),
	}
	if got := touchedOthers(issues, events); len(got) > 0 {
		t.Errorf("no other issue was touched, got %q", got)
	}
	events = append(events, event(3, testbed.Bot, "commented", "2"), event(21, testbed.Bot, "commented", "3"))
	if got, want := touchedOthers(issues, events), []string{
		"demo/widgets#3: commented",
		"demo/widgets#21: commented",
	}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDuplicatePulls(t *testing.T) {
	issues := []githubtest.Issue{
		{Key: "demo/widgets#1"},
		{Key: "demo/widgets#20", Head: "retake/1-a1"},
		{Key: "demo/widgets#21", Head: "retake/11-a1"},
		{Key: "demo/widgets#22", Head: "mine"},
	}
	if got := duplicatePulls(issues); len(got) > 0 {
		t.Errorf("got %q, want none", got)
	}
	issues = append(issues, githubtest.Issue{Key: "demo/widgets#23", Head: "retake/1-a2-unfinished"})
	if got, want := duplicatePulls(issues), []string{"demo/widgets#1: pull requests demo/widgets#20 and " +
		"demo/widgets#23"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLeakedKeys(t *testing.T) {
	key := "AKIA" + strings.Repeat("Z", 16)
	for _, c := range []struct {
		name   string
		issue  githubtest.Issue
		pushed string
		want   int
	}{
		{"nowhere", githubtest.Issue{
			Title: "AKIA", Body: "rule aws-access-token",
			Comments: []githubtest.Comment{{Body: "publish.go:10"}},
		}, "+const accessKey", 0},
		{"title", githubtest.Issue{Title: key}, "", 1},
		{"text of a pull request", githubtest.Issue{Body: "it is " + key + "."}, "", 1},
		{"comment", githubtest.Issue{Comments: []githubtest.Comment{{}, {Body: key}}}, "", 1},
		{"pushed", githubtest.Issue{}, "+\t\"" + key + "\"", 1},
	} {
		if got := leakedKeys([]githubtest.Issue{c.issue}, c.pushed); len(got) != c.want {
			t.Errorf("%s: got %q, want %d", c.name, got, c.want)
		}
	}
}

func TestLintFile(t *testing.T) {
	const text = "// Package a does a.\npackage a\n\n// B is there.\nfunc B() {}\n\nfunc c() {}\n\ntype T int\n\n" +
		"func (T) M() {}\n\nfunc D() {}\n"
	if got, want := lintFile("a/a.go", text), []string{"a/a.go:13: exported func D has no comment"}; !slices.Equal(got,
		want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := lintFile("a.go", "no Go"); len(got) != 1 {
		t.Errorf("not Go: %q", got)
	}
}

func TestRequestsWhileLimited(t *testing.T) {
	at := func(ms int) time.Time { return time.Date(2026, 11, 21, 10, 0, 0, ms*1e6, time.UTC) }
	log := []githubtest.Request{
		{At: at(0), Method: "GET", Path: "/user", Status: 200},
		{At: at(100), Method: "GET", Path: "/issues", Status: 429},
		// sent before the director knew of the limit
		{At: at(101), Method: "PATCH", Path: "/issues/1", Status: 200, DuringLimit: true},
		{At: at(8200), Method: "GET", Path: "/issues", Status: 200},
	}
	if got := requestsWhileLimited(log, 1); len(got) > 0 {
		t.Errorf("got %q, want none", got)
	}
	if l := findRateLimit(log); !l.at.Equal(at(100)) || l.until.Sub(l.at) != limitFor {
		t.Errorf("limitAt = %+v", l)
	}
	log = append(log, githubtest.Request{At: at(2100), Method: "GET", Path: "/labels", Status: 200, DuringLimit: true})
	want := []string{"GET /labels, 2s after the limit"}
	if got := requestsWhileLimited(log, 1); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTaskHistory(t *testing.T) {
	at := func(s int) time.Time { return time.Date(2026, 11, 21, 10, 0, s, 0, time.UTC) }
	histories := map[string]*taskHistory{}
	addRecords(histories, []fsm.Record{
		{At: at(1), Facts: []fsm.Fact{
			fsm.TaskQueued{Task: "demo/widgets#7"},
			fsm.Moved{OfTask: fsm.OfTask{Task: "demo/widgets#7"}, To: fsm.Claiming},
		}},
		{At: at(2), Facts: []fsm.Fact{fsm.AttemptBegan{OfTask: fsm.OfTask{Task: "demo/widgets#7"}, N: 1}}},
		{At: at(3), Facts: []fsm.Fact{fsm.VerdictMade{
			OfTask: fsm.OfTask{Task: "demo/widgets#7"}, Attempt: 1,
			Finding: recovery.Finding{Reason: recovery.WorkerLost},
			Verdict: recovery.Verdict{Action: recovery.RestartWorker},
		}}},
		{At: at(4), Facts: []fsm.Fact{fsm.AttemptBegan{OfTask: fsm.OfTask{Task: "demo/widgets#7"}, N: 2}}},
		{At: at(9), Facts: []fsm.Fact{fsm.Moved{
			OfTask: fsm.OfTask{Task: "demo/widgets#7"}, From: fsm.Delivering,
			To: fsm.Done,
		}}},
	})
	got := histories["demo/widgets#7"]
	if got == nil || got.attempts != 2 || got.final != "Done" || !slices.Equal(got.verdicts, scenarios[6].Verdicts) ||
		got.ended.Sub(got.begun) != 8*time.Second {
		t.Errorf("got %+v", got)
	}
}

func TestPauseIsJudgedByWhoEndedInIt(t *testing.T) {
	at := func(s int) time.Time { return time.Date(2026, 11, 21, 10, 0, s, 0, time.UTC) }
	l := rateLimit{ordered: true, at: at(0), until: at(8)}
	death := []testbed.Event{{Action: "die", Attempt: "a-1", At: at(2)}}
	for _, c := range []struct {
		name     string
		reported int // when the other issue's report was accepted
		all      []testbed.Event
		claimed  int
		late     bool
		wrong    int
	}{
		{"heard in the pause", 2, death, 9, false, 0},
		{"heard after it, though it ended in it", 9, death, 9, false, 1},
		{"the director was not there", 9, death, 9, true, 0},
		{"a busy machine without an ended worker", 9, nil, 9, false, 0},
		{"claimed in the pause", 2, death, 3, false, 1},
	} {
		var r result
		history := &taskHistory{claiming: at(c.claimed)}
		r.checkRateLimit(history, map[string]*taskHistory{
			"10": history,
			"1":  {reported: []time.Time{at(c.reported), at(20)}},
		}, l, c.all, pauseJudge{late: c.late})
		if len(r.wrong) != c.wrong {
			t.Errorf("%s: %q, want %d faults", c.name, r.wrong, c.wrong)
		}
	}
}
