package github

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"
)

// AttemptLine is one attempt in a table that people read.
type AttemptLine struct {
	Number int
	Stage  string        // where it ended
	Reason string        // of the closed list; "" if it succeeded or still runs
	Cause  string        // one line
	Then   string        // what Retake did next
	Took   time.Duration // 0: unknown
}

// ProgressView is what the progress comment shows. The same view gives the same text, and the same text is not sent again:
// put nothing into it that only tells the time.
type ProgressView struct {
	State    string // task state, design's vocabulary
	Attempt  int    // 0: none yet
	Stage    string
	Step     string
	Percent  int // 1 to 100; 0: unknown
	Note     string
	Branch   string
	Attempts []AttemptLine // finished ones
}

// note is what we know of a claim's comment.
type note struct {
	t thread // place and self only
	r remark
}

// notesLimit bounds the notes; what is forgotten is read again.
const notesLimit = 1024

// Progress shows a task's state in its claim comment. It is not_found when there is no such comment of ours (any more), and
// changes nothing once the task was delivered.
func (c *Client) Progress(ctx context.Context, key, nonce string, v ProgressView) error {
	if err := c.mute("progress", key, zap.String("task", nonce), zap.String("to", v.State)); err != nil {
		return err
	}
	for range 2 {
		n, err := c.note(ctx, key, nonce)
		if err != nil {
			return err
		}
		if n.r.mark.Ended != "" {
			return nil
		}
		body, err := c.edit(ctx, laneProgress, n.t, n.r, *n.r.mark, c.progressText(v, nonce))
		if isGone(err) {
			c.forget(key, nonce)
			continue // deleted, or replaced by a claim that ran again
		}
		if err == nil {
			n.r.body = body
			c.remember(key, nonce, n)
		}
		return err
	}
	return &Error{Kind: KindNotFound, Message: "the claim comment of " + key + " is gone"}
}

// note finds the claim comment, in memory or on GitHub.
func (c *Client) note(ctx context.Context, key, nonce string) (note, error) {
	c.mu.Lock()
	n, ok := c.notes[key+" "+nonce]
	c.mu.Unlock()
	if ok {
		return n, nil
	}
	p, err := parseKey(key)
	if err != nil {
		return note{}, err
	}
	self, err := c.self(ctx, laneProgress)
	if err != nil {
		return note{}, err
	}
	t := thread{place: p, self: self}
	if t.remarks, err = c.remarks(ctx, laneProgress, p, self, time.Time{}); err != nil {
		return note{}, err
	}
	found := t.ours(marker{kind: markClaim, Fleet: c.opts.Fleet, Nonce: nonce})
	if len(found) == 0 {
		return note{}, &Error{Kind: KindNotFound, Message: "no claim comment of claim " + nonce + " on " + key}
	}
	t.remarks = nil
	return note{t, found[0]}, nil
}

func (c *Client) remember(key, nonce string, n note) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.notes) >= notesLimit {
		clear(c.notes)
	}
	c.notes[key+" "+nonce] = n
}

func (c *Client) forget(key, nonce string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.notes, key+" "+nonce)
}

// headlines says each state in words for people; %d is the attempt.
var headlines = map[string]string{
	"Claiming":   "has picked up this issue",
	"Starting":   "is starting attempt %d",
	"Running":    "is working on this, attempt %d",
	"Suspect":    "has lost sight of attempt %d and is looking for it",
	"Stopping":   "is ending attempt %d",
	"Backoff":    "will try again after attempt %d",
	"Delivering": "is delivering the result of attempt %d",
	"Done":       "is done",
	"Blocked":    "stopped and needs a human: see its last comment on this issue",
	"Parked":     "waits, as a human asked",
	"Released":   "gave this issue back",
}

func headline(v ProgressView, r redactor) string {
	text, ok := headlines[v.State]
	if !ok {
		text = "is in state " + r.line(v.State, 40)
	}
	if strings.Contains(text, "%d") {
		text = fmt.Sprintf(text, v.Attempt)
	}
	return "**Retake** " + text
}

func (c *Client) progressText(v ProgressView, nonce string) string {
	r := c.redactor()
	var b strings.Builder
	b.WriteString(headline(v, r))
	if v.Stage != "" {
		b.WriteString(" · stage " + r.code(v.Stage, 40))
	}
	if v.Step != "" {
		b.WriteString(" · " + r.line(v.Step, 200))
	}
	if v.Percent > 0 {
		fmt.Fprintf(&b, " · %d %%", min(v.Percent, 100))
	}
	b.WriteString("\n")
	if v.Note != "" {
		b.WriteString("\n" + r.prose(v.Note, 2000) + "\n")
	}
	if v.Branch != "" {
		b.WriteString("\nBranch: " + r.code(v.Branch, 200) + "\n")
	}
	b.WriteString(attemptTable(v.Attempts, r))
	fmt.Fprintf(&b, "\n<sub>claim `%s` · fleet `%s`</sub>", nonce, c.opts.Fleet)
	return b.String()
}

// attemptRows bounds a table; the oldest attempts are left out.
const attemptRows = 20

func attemptTable(lines []AttemptLine, r redactor) string {
	if len(lines) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n| attempt | ended in | with | cause | then |\n| ---: | --- | --- | --- | --- |\n")
	for _, l := range lines[max(0, len(lines)-attemptRows):] {
		reason := r.cellCode(l.Reason, 40)
		if reason == "" {
			reason = "success"
		}
		if l.Took > 0 {
			reason += " after " + l.Took.Round(time.Second).String()
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s |\n", l.Number, r.cell(l.Stage, 40), reason, r.cellCode(l.Cause, 200), r.cell(l.Then, 200))
	}
	return b.String()
}
