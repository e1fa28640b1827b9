package github

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"
)

// Escalation is what a human needs to read in the morning. One Nonce and AttemptID make one comment, ever.
type Escalation struct {
	Key       string
	Nonce     string
	AttemptID string // the attempt after which Retake stopped
	Block     string // names this block: one block, one comment; empty: AttemptID, which can block only once then

	Stage      string
	Reason     string        // of the closed list
	Cause      string        // one line: the root cause as observed
	Facts      []string      // further observations, one line each: "exit code 1", "no OOM flag"
	Attempts   []AttemptLine // what was tried, oldest first
	Tried      []string      // what else was tried, one line each
	WhyStopped string
	Ask        string // the one thing that a human must do or answer
	Question   string // what the agent asks, in its own words: then this is the ask; needs_human without it: Cause is it
	Reclaim    string // the claim went stale (again): what was seen, one line
	Tail       string // the end of the output
}

// Lengths of the parts of an escalation in characters; together they stay below commentLimit.
const (
	shortTail  = 25 // lines; a longer tail is folded
	tailLimit  = 20_000
	askLimit   = 4_000
	whyLimit   = 2_000
	causeLimit = 400
	listLimit  = 20 // lines of 300
)

// Escalate asks a human for help: comment, labels (blocked on, claimed and task off), read back. A repetition finishes
// what is missing; once a human has taken the blocked label off, it stays off.
func (c *Client) Escalate(ctx context.Context, e Escalation) error {
	if err := c.mute("escalate", e.Key, zap.String("attempt", e.AttemptID), zap.String("reason", e.Reason)); err != nil {
		return err
	}
	t, err := c.thread(ctx, laneEscalation, e.Key)
	if err != nil {
		return err
	}
	m := marker{kind: markBlocked, Fleet: c.opts.Fleet, Nonce: e.Nonce, Attempt: cmp.Or(e.Block, e.AttemptID)}
	created, err := c.post(ctx, laneEscalation, t, m, c.escalationText(e))
	if err != nil {
		return err
	}
	if err := c.moveLabels(ctx, laneEscalation, t, c.labels.Blocked, created); err != nil {
		return err
	}
	if !created {
		return nil
	}
	back, err := c.remarks(ctx, laneEscalation, t.place, t.self, time.Time{})
	if err != nil {
		return err
	}
	t.remarks = back
	if len(t.ours(m)) == 0 {
		return transient("the escalation on "+t.key()+" cannot be read back yet", nil)
	}
	return nil
}

// titles says the reason of a block in words; a reason that is missing here is shown as it is.
var titles = map[string]string{
	"build_failed": "the build fails", "tests_failed": "the tests fail", "lint_failed": "the linter fails",
	"validation": "the result does not pass its checks", "timeout": "it takes too long", "oom_killed": "it runs out of memory",
	"worker_lost": "the worker keeps disappearing", "agent_crash": "the agent crashes", "no_progress": "no progress",
	"auth_error": "a login is refused", "permission_denied": "a permission is missing", "quota_exhausted": "a quota is used up",
	"tool_not_found": "a program is missing", "image_pull_failed": "the image cannot be had", "disk_full": "the disk is full",
	"invalid_config": "the configuration is wrong", "git_conflict": "a merge conflict", "needs_human": "a question",
	"context_overflow": "the task does not fit the model's context", "policy_violation": "a policy forbids it",
	"scope_violation": "the change leaves its scope", "docker_daemon": "Docker does not work",
	"network_permanent": "something cannot be reached", "contract_violation": "the worker breaks its contract",
	"corrupt_state": "the state is damaged", "unknown": "an unknown failure",
}

func (c *Client) escalationText(e Escalation) string {
	r := c.redactor()
	title, ok := titles[e.Reason]
	if !ok {
		title = r.line(e.Reason, 80)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "### Retake needs a human: %s\n\n", title)
	if e.Reclaim != "" {
		b.WriteString(reclaimLine(r.line(e.Reclaim, 300)) + "\n\n")
	}
	question := e.question()
	b.WriteString(ask(r.last(question, askLimit), r.last(e.Ask, askLimit)))

	b.WriteString("\n#### What happened\n\n")
	b.WriteString(strong(r.code(cmp.Or(e.Reason, "unknown"), 40)))
	if stage := r.code(e.Stage, 40); stage != "" {
		b.WriteString(" in stage " + stage)
	}
	b.WriteString(" of attempt " + r.code(e.AttemptID, 80))
	if cause := r.code(e.Cause, causeLimit); cause != "" && question == "" { // a question is its own cause
		b.WriteString(":\n\n" + cause)
	}
	b.WriteString("\n" + bullets(e.Facts, r))
	if strings.TrimSpace(e.Tail) != "" {
		open := ""
		if strings.Count(strings.TrimSpace(e.Tail), "\n") < shortTail {
			open = " open"
		}
		fmt.Fprintf(&b, "\n<details%s>\n<summary>Last output</summary>\n\n%s\n\n</details>\n", open, r.fence(e.Tail, tailLimit))
	}

	if len(e.Attempts)+len(e.Tried) > 0 {
		b.WriteString("\n#### What was tried\n" + attemptTable(e.Attempts, r) + bullets(e.Tried, r))
	}
	if e.WhyStopped != "" {
		b.WriteString("\n#### Why Retake stopped\n\n" + r.prose(e.WhyStopped, whyLimit) + "\n")
	}
	b.WriteString("\n#### How to go on\n\n" + c.howToGoOn(r))
	fmt.Fprintf(&b, "\n<sub>claim `%s` · fleet `%s`</sub>", e.Nonce, c.opts.Fleet)
	return b.String()
}

// question is what the agent asks, "" if this is no question.
func (e Escalation) question() string {
	if e.Reason != "needs_human" {
		return ""
	}
	return strings.TrimSpace(cmp.Or(e.Question, e.Cause))
}

// ask is the one thing that a human must do: answer the question if there is one.
func ask(question, todo string) string {
	switch {
	case question != "":
		return "**The agent asks:**\n\n" + quote(question) + "\n\nAnswer in a comment that begins with `/agent retry`: what follows goes to the next attempt.\n"
	case todo != "":
		return "**What you need to do:**\n\n" + quote(todo) + "\n"
	}
	return ""
}

func strong(s string) string {
	if s == "" {
		return ""
	}
	return "**" + s + "**"
}

func bullets(lines []string, r redactor) string {
	if len(lines) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n")
	for _, l := range lines[max(0, len(lines)-listLimit):] {
		b.WriteString("- " + r.line(l, 300) + "\n")
	}
	return b.String()
}
