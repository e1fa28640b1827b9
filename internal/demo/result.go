package demo

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"retake/internal/fsm"
	"retake/internal/github/githubtest"
	"retake/internal/testbed"
)

// result is the actual outcome of a scenario.
type result struct {
	Scenario int      `json:"scenario"`
	Title    string   `json:"title"`
	Issue    string   `json:"issue"`
	Expected string   `json:"expected"`
	Final    string   `json:"final"`
	OK       bool     `json:"ok"`
	Attempts int      `json:"attempts"`
	Verdicts []string `json:"verdicts"`
	Seconds  float64  `json:"seconds"`

	note  string   // an additional remark for people
	wrong []string // differences from the promise
}

// evaluate compares the outcome of a scenario with the promise. It is more tolerant of delays if the director was
// killed.
func (s *world) evaluate(a *activeScenario, histories map[string]*taskHistory, all []testbed.Event, p *run) result {
	history := histories[a.key()]
	if history == nil {
		history = &taskHistory{final: "never claimed"}
	}
	r := result{
		Scenario: a.Number, Title: a.Title, Issue: a.key(), Expected: a.Final, Final: history.final,
		Attempts: history.attempts,
		Verdicts: append([]string{}, history.verdicts...), Seconds: history.ended.Sub(history.begun).Seconds(),
	}
	issue := s.github.Issue(a.key())
	r.require(history.final == a.Final, "it ended %s, want %s", history.final, a.Final)
	r.require(history.attempts == a.Attempts, "%d attempts, want %d", history.attempts, a.Attempts)
	r.require(slices.Equal(history.verdicts, a.Verdicts), "verdicts %q, want %q", history.verdicts, a.Verdicts)
	labels := strings.Join(testbed.OurLabels(issue.Labels), " ")
	r.require(labels == a.Label, "labels [%s], want [%s]", labels, a.Label)
	r.require(a.Through == "" || slices.Contains(history.through, a.Through), "its states do not include %s: %v",
		a.Through,
		history.through)
	r.checkQuestions(a, issue)
	r.checkBranch(a, s.github.Bare)
	r.checkReview(a, s.github.Issues(repository), s.lint)
	r.checkCauses(a, history, s.model, p.killed > 0)
	if a.Loop {
		r.checkLoop(history, s.provider.Served(threeFailures, ""))
	}
	if a.Limit {
		r.checkRateLimit(history, histories, findRateLimit(s.github.Requests()), all, pauseJudge{
			late: p.killed > 0, slowness: p.slowness(),
		})
	}
	r.OK = len(r.wrong) == 0
	return r
}

// checkCauses checks that each outcome had the cause that the scenario promises.
func (r *result) checkCauses(a *activeScenario, history *taskHistory, m *model, killed bool) {
	if a.Fault != "" {
		r.require(!a.faultAt.IsZero(), "its worker was not killed or frozen")
	}
	if a.Fault == faultKill {
		// If the director had missed the engine's event, the worker would first have become suspect.
		r.require(killed || a.noticedAfter > 0 && !slices.Contains(history.through, fsm.Suspect.String()),
			"the director noticed the killed worker only after %v, because it was silent", a.noticedAfter)
	}
	if a.Resets > 0 {
		cut, answered := m.counts()
		r.require(cut == a.Resets && answered == 1, "%d connections were reset and %d answered, want %d and 1", cut,
			answered, a.Resets)
	}
}

// heardWithin is the maximum time until a director on an idle machine notices that a worker has ended.
const heardWithin = 3 * time.Second

// pauseJudge holds the conditions of the run that affect checkRateLimit.
type pauseJudge struct {
	late     bool    // the director was down for some time
	slowness float64 // result of run.slowness
}

// checkRateLimit checks that the issue offered during the limit was claimed after the limit ended. If a worker ended
// during the limit, the director must have accepted a report before the limit ended, unless the director was down. On a
// busy machine, there might be no such worker.
func (r *result) checkRateLimit(history *taskHistory, histories map[string]*taskHistory, l rateLimit,
	all []testbed.Event, j pauseJudge,
) {
	r.require(!l.at.IsZero(), "GitHub did not ask for a pause")
	r.require(history.claiming.After(l.until), "it was claimed %v after the pause began, want at least %v",
		history.claiming.Sub(l.at), limitFor)
	meanwhile := false
	for _, s := range histories {
		meanwhile = meanwhile || slices.ContainsFunc(s.reported,
			func(at time.Time) bool { return at.After(l.at) && at.Before(l.until) })
	}
	ended := slices.ContainsFunc(all, func(x testbed.Event) bool {
		return x.Action == "die" && x.At.After(l.at) && x.At.Before(l.until.Add(-scaled(heardWithin, j.slowness)))
	})
	r.require(j.late || meanwhile || !ended, "a worker ended during the pause, but its report was read too late")
}

// scaled converts a duration measured on an idle machine to one on a slower machine.
func scaled(d time.Duration, slowness float64) time.Duration {
	return time.Duration(float64(d) * max(1, slowness))
}

func (r *result) require(ok bool, format string, args ...any) {
	if !ok {
		r.wrong = append(r.wrong, fmt.Sprintf(format, args...))
	}
}

// checkQuestions checks that a human gets at most one question, with the evidence.
func (r *result) checkQuestions(a *activeScenario, issue githubtest.Issue) {
	var asked []string
	for _, c := range issue.Comments {
		if strings.HasPrefix(c.Body, testbed.MarkBlocked) && c.Author == testbed.Bot {
			asked = append(asked, c.Body)
		}
	}
	want := 0
	if len(a.Asks) > 0 {
		want = 1
	}
	r.require(len(asked) == want, "%d comments ask a human, want %d", len(asked), want)
	if len(asked) == 1 {
		for _, part := range a.Asks {
			r.require(strings.Contains(asked[0], part), "the comment that asks a human does not show %q", part)
		}
	}
}

// checkBranch checks that the pushed work changes exactly the promised files, or that nothing was pushed. Merged
// work is on the main branch, and its own branch is gone.
func (r *result) checkBranch(a *activeScenario, bare string) {
	branches, err := testbed.Git(bare, "for-each-ref", "--format=%(refname:short)",
		fmt.Sprintf("refs/heads/retake/%d-*", a.Number))
	r.require(err == nil, "cannot read the repository: %v", err)
	var want string
	if len(a.Files) > 0 && !a.Merged {
		want = a.branch()
	}
	if r.require(branches == want, "branches %q, want %q", branches, want); branches != want || len(a.Files) == 0 {
		return
	}
	work, since := want, "main..."+want
	if a.Merged {
		work, since = "main", "main^1..main" // the only merged pull request
	}
	changed, err := testbed.Git(bare, "diff", "--name-only", "--no-renames", since)
	files := strings.Fields(changed)
	r.require(err == nil && slices.Equal(files, a.Files), "%s changes %v, want %v (%v)", work, files, a.Files, err)
	if a.Half != "" {
		half, err := testbed.Git(bare, "show", work+":"+a.Half)
		r.require(err == nil && attemptOne.MatchString(half), "%s does not contain the unfinished work of the first "+
			"attempt (%v)",
			work, err)
	}
	for path, part := range a.Holds {
		text, err := testbed.Git(bare, "show", work+":"+path)
		r.require(err == nil && strings.Contains(text, part), "%s on %s does not contain %q (%v)",
			path, work, part, err)
	}
}
