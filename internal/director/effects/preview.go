package effects

import (
	"context"

	"retake/internal/agent"
	"retake/internal/bus/wire"
	"retake/internal/director/inforce"
	"retake/internal/fsm"
	"retake/internal/github"
)

// FirstPrompt returns the input for the prompt of an issue's first attempt, with the issue's current text, and the
// setup of that attempt. It does not change GitHub. It returns a failure.Contract if the repository's contract or
// prompt template has problems.
func (c *Contracts) FirstPrompt(ctx context.Context, gh *github.Client, k fsm.IssueKey) (t agent.Task,
	in *inforce.Setup, err error,
) {
	if in, _, err = c.At(ctx, c.Origin.Branch(k.Repo()), ""); err != nil {
		return t, in, err
	}
	issue, err := gh.Issues.Issue(ctx, string(k))
	if err != nil {
		return t, in, err
	}
	title, body, _ := shownText(issue.Title, issue.Body)
	first := fsm.Effect{Task: k, Attempt: 1}
	return agent.Task{
		Stage: wire.StageCode, Round: 1, Branch: BranchOf(first), BaseBranch: in.GitHub.BaseBranch,
		Checks: in.Checks(),
		Attempt: wire.AttemptFile{Attempt: 1, Issue: wire.IssueRef{
			Key: string(k), Number: k.Number(), Title: title, Body: body, Labels: issue.Labels, URL: issue.URL,
		}},
	}, in, nil
}
