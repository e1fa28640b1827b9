package story

import (
	"fmt"
	"slices"

	"retake/internal/fsm"
)

// Remedy is something that a person can do about a task now.
type Remedy struct {
	Do    string `json:"do"`    // a command to type, or a thing to do on GitHub
	Means string `json:"means"` // what comes of it

	Command fsm.Command `json:"command,omitempty"` // that Do gives; empty: it gives none
}

// remedies is the table of commands that the operator has for a task, and what comes of them. Which of them work in a state the machine says.
var remedies = []struct {
	command fsm.Command
	means   map[fsm.State]string // by state; the zero state: any other
}{
	{fsm.CommandRetry, map[fsm.State]string{
		0: "begins the next attempt now, with all meters at zero", fsm.Blocked: "answers it: another attempt; --text \"…\" tells the agent what you know",
	}},
	{fsm.CommandFresh, map[fsm.State]string{0: "begins the next attempt on a fresh checkout of the base branch"}},
	{fsm.CommandFix, map[fsm.State]string{fsm.InReview: "begins another attempt at the pull request; --text \"…\" says what to change"}},
	{fsm.CommandStop, map[fsm.State]string{0: "gives the issue up; what was pushed stays", fsm.Queued: "takes it out of the queue"}},
}

// can lists what a person can do about a task in a state.
func can(k fsm.IssueKey, s fsm.State, work fsm.DeliverResult) (all []Remedy) {
	switch {
	case s.Info().Live:
		all = append(all, Remedy{Do: "director logs " + string(k) + " --follow", Means: "shows what it prints"})
	case s == fsm.InReview:
		all = append(all, Remedy{Do: fmt.Sprintf("merge or review pull request #%d", work.PullRequest), Means: "merging ends the task; a review says what to change"})
	case s == fsm.Blocked:
		all = append(all, Remedy{Do: "answer on the issue, as its last comment recommends", Means: "Retake goes on as you say"})
	}
	works := fsm.CommandsIn(s)
	for _, r := range remedies {
		means := r.means[s]
		if means == "" {
			means = r.means[0]
		}
		if means != "" && slices.Contains(works, r.command) {
			all = append(all, Remedy{Do: "director " + string(r.command) + " " + string(k), Means: means, Command: r.command})
		}
	}
	return all
}
