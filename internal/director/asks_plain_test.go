package director

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"retake/internal/timeline"
)

// asksColour is an agent that asks for a colour until a person names one, and then paints.
const asksColour = `grep -q violet .retake/prompt.md && { echo violet > colour; exit 0; }
echo "Which colour?" > .retake/question.md`

// newPlain returns a director whose agent asks for a colour, and the issue with the question.
func newPlain(t *testing.T, plainAnswers bool, agent string) (s *harness, key string) {
	t.Helper()
	s = newReal(t, map[string]string{"agent": agent}, code("agent"))
	s.config.Escalation.PlainAnswers = plainAnswers
	s.config.Director.MaxRetries = 1
	key = s.github.CreateIssue(repo, "octocat", "Paint", "", "agent-task")
	s.start()
	s.question(key)
	return s, key
}

// reactions counts our reactions to a comment.
func (s *harness) reactions(key string, comment int64) (n int) {
	for _, c := range s.github.Issue(key).Comments {
		if c.ID == comment {
			n = len(c.Reactions)
		}
	}
	return n
}

// linesOf returns the texts of a story's events.
func linesOf(told timeline.Task) string {
	var lines []string
	for _, e := range told.Events {
		lines = append(lines, e.Text)
	}
	return strings.Join(lines, "\n")
}

// A plain reply to the agent's own question is the answer, and the next attempt gets its text.
func TestAsksAndTakesAPlainReply(t *testing.T) {
	t.Parallel()
	s, key := newPlain(t, true, asksColour)
	reply := s.github.AddComment(key, "octocat", "The colour is violet.")
	s.until("review", s.labelled(key, "agent-review"))
	s.until("acknowledged", s.reacted(key, reply, "+1"))
	if told := s.explained(key); told.Attempt != 2 || !strings.Contains(linesOf(told),
		"octocat answers the agent's question") {
		t.Errorf("attempt %d:\n%s", told.Attempt, linesOf(told))
	}
}

// Retake acknowledges a plain comment once, even after a restart, if escalation.plain_answers = false or the agent did
// not ask. `explain` names the command that starts an attempt. Comments by people without write access get nothing.
func TestAsksAndAcknowledgesAPlainComment(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		plainAnswers bool
		agent        string
	}{
		"discussed":      {false, asksColour},
		"failed program": {true, `echo "fatal: no such table" >&2; exit 1`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, key := newPlain(t, c.plainAnswers, c.agent)
			s.github.AddUser("passerby", "")
			outsider := s.github.AddComment(key, "passerby", "The colour is green.")
			reply := s.github.AddComment(key, "octocat", "The colour is violet.")
			s.until("acknowledged", s.reacted(key, reply, "eyes"))
			s.stop()
			s.start()
			s.github.EditComment(key, "octocat", reply, "The colour is violet, of course.")
			second := s.github.AddComment(key, "octocat", "Or mauve.")
			s.until("the second is acknowledged", s.reacted(key, second, "eyes"))
			if n, others := s.reactions(key, reply), s.reactions(key, outsider); n != 1 || others != 0 {
				t.Errorf("%d reactions, and %d to the outsider; want 1 and 0", n, others)
			}
			told := s.explained(key)
			if told.Attempt != 1 || told.State != "Blocked" ||
				!strings.Contains(told.Heard, "octocat commented at") ||
				!strings.Contains(told.Heard, "`/agent retry` starts") {
				t.Errorf("%s, attempt %d, heard: %s", told.State, told.Attempt, told.Heard)
			}
			var explained bytes.Buffer
			must(t, told.Explain(&explained, time.Now()))
			if !strings.Contains(explained.String(), "\nHEARD    octocat commented at ") {
				t.Errorf("explain lacks the comment:\n%s", explained.String())
			}
		})
	}
}
