package demo

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"retake/internal/github/githubtest"
	"retake/internal/testbed"
)

// issueOfPull maps the keys of the director's pull requests to the keys of their issues.
func issueOfPull(issues []githubtest.Issue) map[string]string {
	of := map[string]string{}
	for _, i := range issues {
		if n := testbed.IssueOfBranch(i.Head); n != "" {
			of[i.Key] = repository + "#" + n
		}
	}
	return of
}

// duplicatePulls finds issues with more than one pull request, open or closed.
func duplicatePulls(issues []githubtest.Issue) (wrong []string) {
	seen := map[string]string{}
	of := issueOfPull(issues)
	for _, i := range issues {
		issue, ok := of[i.Key]
		if !ok {
			continue
		}
		if other := seen[issue]; other != "" {
			wrong = append(wrong, fmt.Sprintf("%s: pull requests %s and %s", issue, other, i.Key))
		}
		seen[issue] = i.Key
	}
	return wrong
}

// keyShape matches AWS access keys.
var keyShape = regexp.MustCompile(`AKIA[0-9A-Z]{16}`)

// leakedKeys finds keys where people can read them: in titles, bodies, comments and pushed files.
func leakedKeys(issues []githubtest.Issue, pushed string) (wrong []string) {
	for _, i := range issues {
		all := []string{i.Title, i.Body}
		for _, c := range i.Comments {
			all = append(all, c.Body)
		}
		if keyShape.MatchString(strings.Join(all, "\n")) {
			wrong = append(wrong, i.Key+" shows the key")
		}
	}
	if keyShape.MatchString(pushed) {
		wrong = append(wrong, "the key was pushed")
	}
	return wrong
}

// review plays the human who reviews a scenario's pull request and merges it once its check passes. It reports whether
// the issue is finished.
func (r *run) review(a *activeScenario, labels []string) (ended bool, err error) {
	pulls := testbed.Pulls(r.world.github.Issues(repository), a.key())
	if len(pulls) != 1 {
		return false, nil
	}
	pull := pulls[0]
	if pull.MergedBy != "" {
		return len(labels) == 0, nil
	}
	passed, judged := r.world.lint.of(pull.HeadSHA)
	if judged && a.judged != pull.HeadSHA {
		a.judged = pull.HeadSHA
		word := "fails"
		if passed {
			word = "passes"
		}
		r.printFor(a.key(), "check %s on its pull request %s", lintName, word)
	}
	if !passed || !slices.Equal(labels, []string{testbed.LabelReview}) {
		return false, nil
	}
	r.printFor(a.key(), "a human merges it: %s", r.world.pullPage(pull.Key))
	if err := r.world.github.Merge(pull.Key, testbed.Person); err != nil {
		return false, fmt.Errorf("demo: merge %s: %w", pull.Key, err)
	}
	return false, nil
}

// checkReview checks that an issue has one pull request if its work is delivered, and otherwise none. For a scenario
// with a merge, it also checks that one commit failed the check, and that the merged commit passed and descends from
// it.
func (r *result) checkReview(a *activeScenario, issues []githubtest.Issue, l *lint) {
	pulls, want := testbed.Pulls(issues, a.key()), 0
	if a.delivers() {
		want = 1
	}
	if r.require(len(pulls) == want, "%d pull requests, want %d", len(pulls), want); len(pulls) != want || want == 0 {
		return
	}
	pull, failed := pulls[0], l.failures(a.branch())
	passed, _ := l.of(pull.HeadSHA)
	r.require(!pull.Draft && passed, "the pull request is a draft (%v), or its check does not pass (%v)", pull.Draft,
		!passed)
	if !a.Merged {
		r.require(pull.MergedBy == "" && len(failed) == 0, "its pull request was merged by %q, and its check failed "+
			"on %q",
			pull.MergedBy, failed)
		return
	}
	r.require(pull.MergedBy == testbed.Person, "its pull request was merged by %q, want %s", pull.MergedBy,
		testbed.Person)
	if r.require(len(failed) == 1, "the check failed on %q, want one commit", failed); len(failed) == 1 {
		_, err := testbed.Git(l.bare, "merge-base", "--is-ancestor", failed[0], pull.HeadSHA)
		r.require(err == nil, "the branch moved from %s to %s without a fast-forward", failed[0], pull.HeadSHA)
	}
}
