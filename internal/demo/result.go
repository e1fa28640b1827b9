package demo

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"retake/internal/github/githubtest"
)

// result is one scenario's end, as it really was.
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

	note  string   // more of what happened, in plain words; empty: the table says it
	wrong []string // what differs from what was promised
}

// evaluate compares a scenario's end with what was promised. killed says that the director was killed
// meanwhile: what it was not there to see at once, it may see later.
func (s *testbed) evaluate(a *activeScenario, histories map[string]*taskHistory, all []containerEvent,
	killed bool,
) result {
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
	labels := strings.Join(ourLabels(issue.Labels), " ")
	r.require(labels == a.Label, "labels [%s], want [%s]", labels, a.Label)
	r.require(a.Through == "" || slices.Contains(history.through, a.Through), "it was never %s: %v", a.Through,
		history.through)
	r.checkQuestions(a, issue)
	r.checkBranch(a, s.bare())
	r.checkReview(a, s.github.Issues(repository), s.lint)
	r.checkCauses(a, s.model, killed)
	if a.Loop {
		r.checkLoop(history, s.provider.Served(threeFailures, ""))
	}
	if a.Limit {
		r.checkRateLimit(history, histories, findRateLimit(s.github.Requests()), all, killed)
	}
	r.OK = len(r.wrong) == 0
	return r
}

// checkCauses makes sure that each outcome had the cause that the scenario promises.
func (r *result) checkCauses(a *activeScenario, m *model, killed bool) {
	if a.Fault != "" {
		r.require(!a.faultAt.IsZero(), "its worker was left alone")
	}
	if a.Fault == faultKill {
		r.require(killed || a.noticedAfter > 0 && a.noticedAfter < noticedWithin,
			"the director saw the killed worker after %v, want less than %v", a.noticedAfter, noticedWithin)
	}
	if a.Resets > 0 {
		cut, answered := m.counts()
		r.require(cut == a.Resets && answered == 1, "%d connections were reset and %d answered, want %d and 1", cut,
			answered, a.Resets)
	}
}

// checkRateLimit makes sure that the issue offered during the limit was claimed after it, and that a worker
// that ended during the limit was heard during it, unless the director may be late. On a busy machine none may
// end.
func (r *result) checkRateLimit(history *taskHistory, histories map[string]*taskHistory, l rateLimit,
	all []containerEvent, late bool,
) {
	r.require(!l.at.IsZero(), "GitHub asked for no pause")
	r.require(history.claiming.After(l.until), "it was claimed %v after the pause began, want at least %v",
		history.claiming.Sub(l.at), limitFor)
	meanwhile := false
	for _, s := range histories {
		meanwhile = meanwhile || slices.ContainsFunc(s.reported,
			func(at time.Time) bool { return at.After(l.at) && at.Before(l.until) })
	}
	ended := slices.ContainsFunc(all, func(x containerEvent) bool {
		return x.action == "die" && x.at.After(l.at) && x.at.Before(l.until.Add(-noticedWithin))
	})
	r.require(late || meanwhile || !ended, "a worker ended during the pause, and was not heard before its end")
}

func (r *result) require(ok bool, format string, args ...any) {
	if !ok {
		r.wrong = append(r.wrong, fmt.Sprintf(format, args...))
	}
}

// checkQuestions makes sure that a human is asked once, with the evidence, or not at all.
func (r *result) checkQuestions(a *activeScenario, issue githubtest.Issue) {
	var asked []string
	for _, c := range issue.Comments {
		if strings.HasPrefix(c.Body, "<!-- retake:blocked ") && c.Author == bot {
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

// checkBranch makes sure that the work changes what it should and nothing else, or that there is none. Merged
// work is on the main branch, and its own is gone.
func (r *result) checkBranch(a *activeScenario, bare string) {
	branches, err := git(bare, "for-each-ref", "--format=%(refname:short)",
		fmt.Sprintf("refs/heads/retake/%d-*", a.Number))
	r.require(err == nil, "the repository cannot be read: %v", err)
	var want string
	if len(a.Files) > 0 && !a.Merged {
		want = a.branch()
	}
	if r.require(branches == want, "branches %q, want %q", branches, want); branches != want || len(a.Files) == 0 {
		return
	}
	work, since := want, "main..."+want
	if a.Merged {
		work, since = "main", "main^1..main" // nothing else is merged
	}
	changed, err := git(bare, "diff", "--name-only", "--no-renames", since)
	files := strings.Fields(changed)
	r.require(err == nil && slices.Equal(files, a.Files), "%s changes %v, want %v (%v)", work, files, a.Files, err)
	if a.Half != "" {
		half, err := git(bare, "show", work+":"+a.Half)
		r.require(err == nil && attemptOne.MatchString(half), "%s does not hold what the first attempt began (%v)",
			work, err)
	}
	for path, part := range a.Holds {
		text, err := git(bare, "show", work+":"+path)
		r.require(err == nil && strings.Contains(text, part), "%s on %s does not hold %q (%v)", path, work, part, err)
	}
}

// git asks a bare repository.
func git(bare string, args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"--git-dir", bare}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_COUNT=1",
		"GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*")
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}
