package chaos

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"retake/internal/github/githubtest"
	"retake/internal/testbed"
)

// maxAttempts is the number of attempts before the director asks a question: 1 + max_retries in its configuration.
const maxAttempts = 9

// auditor checks a world's results from outside.
type auditor struct{ *world }

// audit checks a world after its director has exited. stuck lists the unfinished issues.
func (w auditor) audit(ctx context.Context, t *table, stuck []string) error {
	runs, err := readRuns(w.runs())
	if err != nil {
		return err
	}
	branches, err := w.branches()
	if err != nil {
		return err
	}
	all, events := w.github.Issues(repository), w.github.Events("")
	t.more("issues opened", len(w.issues))
	for _, s := range stuck {
		t.bad("stuck", s)
	}
	w.auditComments(t, all, events)
	for _, i := range w.issues {
		of := slices.DeleteFunc(slices.Clone(runs), func(r *agentRun) bool { return r.issue != i.key })
		w.auditReports(t, i, of, branches)
		w.auditBranches(t, i, of, all, branches)
		w.auditLabels(t, i)
		w.auditBudget(t, i, of)
	}
	for _, r := range overlapping(runs) {
		t.bad("attempts overlapping", r.issue+" "+r.attempt)
	}
	for _, r := range twice(runs) {
		t.bad("attempts run twice", r.issue+" "+r.attempt)
	}
	w.auditSlow(t, runs)
	w.auditSilent(t, runs)
	t.more("attempts", len(attempts(runs)))
	w.auditLimits(t)
	for _, f := range w.wrong {
		t.bad(f.column, f.detail)
	}
	return w.auditHost(ctx, t)
}

func (w auditor) auditHost(ctx context.Context, t *table) error {
	left, err := w.host.Workers(ctx)
	if err != nil {
		return err
	}
	for _, x := range left {
		t.bad("containers left behind", x.Task+" "+x.Attempt)
	}
	networks, err := w.host.Networks(ctx)
	if err != nil {
		return err
	}
	for _, name := range networks[min(1, len(networks)):] {
		t.bad("excess networks", name)
	}
	return nil
}

// attempts returns the ids of the attempts that ran.
func attempts(runs []*agentRun) (ids []string) {
	for _, r := range runs {
		if !slices.Contains(ids, r.attempt) {
			ids = append(ids, r.attempt)
		}
	}
	return ids
}

// branches maps each pushed branch to the attempt named in the issue's file on that branch.
func (w auditor) branches() (found map[string]string, err error) {
	found = map[string]string{}
	refs, err := testbed.Git(w.github.Bare, "for-each-ref", "--format=%(refname:short)", "refs/heads/retake/")
	for branch := range strings.FieldsSeq(refs) {
		text := ""
		if n := testbed.IssueOfBranch(branch); n != "" {
			// The file is missing on a branch with unfinished work.
			text, _ = testbed.Git(w.github.Bare, "show", branch+":work/"+n+".txt")
		}
		found[branch] = strings.TrimSpace(text)
	}
	return found, err
}

// shown returns the attempts with visible work, on a branch of the issue or, after a merge, on main.
func (w auditor) shown(i *issue, branches map[string]string) (ids []string) {
	for branch, attempt := range branches {
		if testbed.IssueOfBranch(branch) == number(i.key) && attempt != "" {
			ids = append(ids, attempt)
		}
	}
	if text, err := testbed.Git(w.github.Bare, "show", "main:work/"+number(i.key)+".txt"); err == nil &&
		!slices.Contains(ids, strings.TrimSpace(text)) {
		ids = append(ids, strings.TrimSpace(text))
	}
	return ids
}

// auditReports compares the agents' results with the visible results.
func (w auditor) auditReports(t *table, i *issue, runs []*agentRun, branches map[string]string) {
	shown := w.shown(i, branches)
	asked, again := w.askedAbout(i)
	for n, r := range runs {
		var decided int
		at := r.alive
		switch {
		case !r.finished.IsZero():
			at = r.finished
			for _, id := range shown {
				if id == r.attempt {
					decided++
				}
			}
			if later := runs[n+1:]; len(later) > 0 && i.acts == 0 && decided == 0 {
				if w.excused(r, at) {
					t.more("excused", 1)
					t.more("reports sent", 1)
					continue
				}
				t.bad("finished work repeated", fmt.Sprintf("%s: %s had finished at %s, then %s started", i.key,
					r.attempt, at.Format(time.TimeOnly), later[0].attempt))
			}
		case r.asked:
			decided = asked[r.attempt]
			if decided == 0 && len(runs) > n+1 && w.excused(r, at) {
				decided = 1
			}
		case r.failed:
			if decided = asked[r.attempt]; decided == 0 && len(runs) > n+1 {
				decided = 1
			}
		default:
			continue
		}
		t.more("reports sent", 1)
		switch {
		case decided > 0:
			t.more("decided", 1)
			if r.asked || r.failed {
				decided -= again[r.attempt]
				t.more("asked again (excused)", again[r.attempt])
			}
			if decided > 1 {
				t.bad("doubled", fmt.Sprintf("%s %s: %d times", i.key, r.attempt, decided))
			}
		case i.gone || i.acts > 0 || w.excused(r, at):
			t.more("excused", 1)
		default:
			t.bad("lost", fmt.Sprintf("%s %s", i.key, r.attempt))
		}
	}
}

var attemptOfQuestion = regexp.MustCompile(`"attempt":"([a-z0-9]+-\d+)`)

// askedAbout counts the questions about each attempt. again counts the questions that the director had to repeat; see
// askedAgain.
func (w auditor) askedAbout(i *issue) (n, again map[string]int) {
	n = map[string]int{}
	asked := w.questions(i, w.github.Issue(i.key))
	for _, c := range asked {
		n[attemptOf(c)]++
	}
	return n, w.askedAgain(i, asked)
}

// attemptOf returns the attempt that a question is about.
func attemptOf(question githubtest.Comment) string {
	if m := attemptOfQuestion.FindStringSubmatch(question.Body); m != nil {
		return m[1]
	}
	return "none"
}

// auditBranches checks that each issue has one branch and one pull request.
func (w auditor) auditBranches(t *table, i *issue, runs []*agentRun, all []githubtest.Issue,
	branches map[string]string,
) {
	expected := 0
	if !i.gone {
		expected = 1
	}
	found := testbed.Pulls(all, i.key)
	t.more("branches expected", expected)
	t.more("branches present", len(found))
	if len(found) < expected || len(found) > expected+i.acts && !i.gone || i.gone && len(found) > 1+i.acts {
		t.bad("branches extra or missing", fmt.Sprintf("%s: %d pull requests, want %d", i.key, len(found), expected))
	}
	known := map[string]bool{}
	for _, p := range found {
		known[p.Head] = true
	}
	for branch := range branches {
		if testbed.IssueOfBranch(branch) == number(i.key) && !known[branch] && !i.gone &&
			!strings.HasSuffix(branch, "-unfinished") {
			t.bad("branches extra or missing", i.key+": branch "+branch+" has no pull request")
		}
	}
	for _, id := range w.shown(i, branches) {
		if !slices.ContainsFunc(runs, func(r *agentRun) bool { return r.attempt == id }) {
			t.bad("branches extra or missing", i.key+": work of "+id+", an attempt that never ran")
		}
	}
}

// auditLabels checks that a finished issue has at most one of the director's labels.
func (w auditor) auditLabels(t *table, i *issue) {
	now := w.github.Issue(i.key)
	ours := testbed.OurLabels(now.Labels)
	want := []string{testbed.LabelReview}
	if i.gone || i.merges {
		want = nil
	}
	t.more("labels expected", len(want))
	t.more("labels present", len(ours))
	if taken := i.gone && (slices.Equal(ours, []string{testbed.LabelTask}) ||
		slices.Equal(ours, []string{testbed.LabelReview})); !slices.Equal(ours, want) && !taken {
		t.bad("labels extra or missing", fmt.Sprintf("%s has %v, want %v", i.key, ours, want))
	}
}

// auditBudget checks that tasks stay within their budget of attempts. Each answer renews the budget.
func (w auditor) auditBudget(t *table, i *issue, runs []*agentRun) {
	if n, most := len(attempts(runs)), maxAttempts*(1+i.answers+i.acts); n > most {
		t.bad("budget overruns", fmt.Sprintf("%s: %d attempts, budget %d", i.key, n, most))
	}
	needed := 0
	if i.part.First == "asks" {
		needed = 1
	}
	asked := w.questions(i, w.github.Issue(i.key))
	for _, q := range asked[min(needed, len(asked)):] {
		t.bad("unnecessary questions", i.key+": "+titleOf(q.Body))
	}
}
