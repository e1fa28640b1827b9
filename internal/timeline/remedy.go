package timeline

import (
	"fmt"
	"slices"
	"strings"

	"retake/internal/fsm"
	"retake/internal/recovery/plaintext"
)

// Remedy is an action that a person can currently take on a task.
type Remedy struct {
	Do    string `json:"do"`    // a comment or command to copy, or an action on GitHub
	Means string `json:"means"` // the effect

	Advised bool        `json:"advised,omitempty"` // the question recommends this remedy, so it comes first
	Command fsm.Command `json:"command,omitempty"` // the command in Do if that is complete, or ""
}

// remedies lists the operator's commands for a task, with their effects. The state machine decides which ones are
// allowed in a state.
var remedies = []struct {
	command fsm.Command
	use     string               // command line, with %s for the issue; "" means the command's name and the issue
	means   map[fsm.State]string // effect by state; the zero state stands for all others
}{
	{fsm.CommandRetry, "", map[fsm.State]string{
		0: "starts another attempt now in the same checkout, and resets all budgets",
		fsm.Blocked: "starts another attempt in the same checkout, and resets all budgets; --text \"…\" passes " +
			"your text to the agent",
	}},
	{fsm.CommandFresh, "", map[fsm.State]string{0: "starts another attempt in a new checkout of the base branch, " +
		"and resets all budgets; unpushed work is lost"}},
	{
		fsm.CommandFix, "director fix %s --text \"…\"",
		map[fsm.State]string{fsm.InReview: "starts another attempt on the pull request; the text describes the " +
			"changes you want"},
	},
	{
		fsm.CommandSnooze, "director snooze %s 2h",
		map[fsm.State]string{0: "postpones the issue for the given time, then starts the next attempt"},
	},
	{fsm.CommandBudget, "director grant %s +2", map[fsm.State]string{
		0:           "allows 2 more attempts, and resets the other budgets",
		fsm.Blocked: "continues with up to 2 more attempts, and resets the other budgets",
	}},
	{
		fsm.CommandTake, "director take %s",
		map[fsm.State]string{0: "hands the issue to you: Retake stops working on it and tells you which branch has " +
			"the work so far"},
	},
	{fsm.CommandStop, "", map[fsm.State]string{0: "gives up the issue; pushed work is kept, and an open pull request " +
		"stays open", fsm.Queued: "removes the issue from the queue"}},
}

// anyComment is appended to a question's instructions if a comment without a command is a valid answer.
const anyComment = " A plain comment is enough. Retake gives the agent the first comment by a person with write access."

// can lists a person's options for a task in the given state, with the recommended ones first. takesReply means that a
// comment without a command answers the question.
func (s *Task) can(in fsm.State, takesReply bool) (all []Remedy) {
	k := string(s.Issue)
	switch {
	case in.Info().Live:
		all = append(all, Remedy{Do: "director logs " + k + " --follow", Means: "shows the output of the current " +
			"attempt"})
	case in == fsm.Blocked:
		all = s.answers(takesReply)
	}
	works := fsm.CommandsIn(in)
	for _, r := range remedies {
		means := r.means[in]
		if means == "" {
			means = r.means[0]
		}
		if means == "" || !slices.Contains(works, r.command) ||
			slices.ContainsFunc(all, func(a Remedy) bool { return a.Command == r.command }) {
			continue
		}
		if r.use != "" { // the command needs an argument or is irreversible
			all = append(all, Remedy{Do: fmt.Sprintf(r.use, k), Means: means})
		} else {
			all = append(all, Remedy{Do: "director " + string(r.command) + " " + k, Means: means, Command: r.command})
		}
	}
	if !in.Info().Live && s.Attempt > 0 {
		all = append(all, Remedy{Do: "director logs " + k, Means: "shows the output of the last attempt"})
	}
	return all
}

// OfStopped returns the task with its advice adapted to a stopped director.
func (s Task) OfStopped() Task {
	s.Stopped = true
	if s.Over {
		return s
	}
	if s.Asked == nil && strings.HasPrefix(s.Next, nothing) {
		s.Next = "Start the director: director run"
	}
	s.Can = slices.Clone(s.Can)
	for i := range s.Can {
		r := &s.Can[i]
		switch line, logs := strings.CutPrefix(r.Do, "director logs "); {
		case logs:
			r.Do = "director logs " + strings.TrimSuffix(line, " --follow")
		case strings.HasPrefix(r.Do, "director ") && r.Advised:
			r.Means += "; start the director first"
		case r.Advised:
			r.Means += "; the director will read the comment when it starts"
		}
	}
	return s
}

// answers returns the two forms of the recommended answer: the comment, and the equivalent command.
func (s *Task) answers(takesReply bool) []Remedy {
	reply := "/agent retry <advice to the agent>"
	if s.Asked != nil && s.Asked.Reply != "" {
		reply = whole(s.Asked.Reply)
	}
	where := "post this as a comment on the issue"
	if s.URL != "" {
		where += ", " + s.URL
	}
	if strings.Contains(reply, "<") {
		where += ", replacing <…> with your own text"
	}
	comment := reply
	if takesReply {
		comment = "<your answer>"
	}
	all := []Remedy{{Do: comment, Means: where, Advised: true}}
	if line, command := typed(s.Issue, reply); line != "" {
		same := "or use this equivalent command"
		if strings.Contains(line, "'<") { // in a shell, an apostrophe would end the quoted text
			same += " (write an apostrophe in your text as '\\'')"
		}
		all = append(all, Remedy{Do: line, Means: same, Advised: true, Command: command})
	}
	return all
}

// CommandLine returns the command line equivalent to a comment such as "/agent retry use B", or "".
func CommandLine(k fsm.IssueKey, comment string) string {
	line, _ := typed(k, comment)
	return line
}

// typed returns the command line equivalent to a comment, or "". command is set if the line is complete.
func typed(k fsm.IssueKey, comment string) (line string, command fsm.Command) {
	words := strings.Fields(comment)
	if len(words) < 2 {
		return "", ""
	}
	name, rest := fsm.Command(words[1]), strings.Join(words[2:], " ")
	argv := []string{"director", string(name), string(k)}
	switch name {
	case fsm.CommandResume: // on the command line, resume ends the director's pause
		argv[1], name = string(fsm.CommandRetry), fsm.CommandRetry
	case fsm.CommandRetry, fsm.CommandFresh, fsm.CommandFix:
		if rest != "" {
			argv = append(argv, "--text", rest)
		}
	case fsm.CommandSnooze:
		argv = append(argv, rest)
	case fsm.CommandBudget:
		argv = append(argv, "+"+strings.TrimPrefix(rest, "+"))
		argv[1] = "grant"
	case fsm.CommandStop, fsm.CommandTake:
	default:
		return "", ""
	}
	if name != fsm.CommandRetry && name != fsm.CommandFresh && name != fsm.CommandStop {
		command = ""
	} else {
		command = name
	}
	for i, w := range argv { // the issue key is safe in a shell
		if i != 2 {
			argv[i] = plaintext.CommandLine([]string{w})
		}
	}
	return strings.Join(argv, " "), command
}
