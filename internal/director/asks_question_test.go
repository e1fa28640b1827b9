package director

import (
	"bytes"
	"html"
	"strings"
	"testing"
	"time"
)

// All views of a task show the agent's question. Only the comment may refer to text below, because other views end with
// the question.
func TestAsksWhereOneLooks(t *testing.T) {
	t.Parallel()
	s := newReal(t, map[string]string{
		"agent": "mkdir -p .retake\nprintf 'Red, or rather violet?\\n\\nRed or violet?\\n' > .retake/question.md",
	}, code("agent"))
	s.config.Escalation.RemindAfter = time.Second
	v := s.visited()
	key := s.github.CreateIssue(repo, "octocat", "Paint", "", "agent-task")
	s.start()
	const first, second = "Red, or rather violet?", "Red or violet?"
	comment := s.question(key)
	s.until("the question is in the journal", func() bool {
		asked := s.explained(key).Asked
		return asked != nil && asked.Question != ""
	})
	told := s.explained(key)
	var explained bytes.Buffer
	must(t, told.Explain(&explained, time.Now()))
	views := map[string]string{
		"the comment": comment, "explain": explained.String(), "tasks": told.Asked.Text(),
		"the board": v.get("/"), "the page of the task": v.get("/tasks/" + strings.Replace(key, "#", "/", 1)),
	}
	s.until("a reminder", func() bool {
		for _, c := range s.github.Issue(key).Comments {
			if strings.Contains(c.Body, "Please answer [the question") {
				views["the reminder"] = c.Body
			}
		}
		return views["the reminder"] != ""
	})
	for name, text := range views {
		if !strings.Contains(text, first) || !strings.Contains(text, second) {
			t.Errorf("%s lacks the question:\n%s", name, text)
		}
		if name != "the comment" && strings.Contains(text, "below") {
			t.Errorf("%s refers to a text below:\n%s", name, text)
		}
	}
}

// Every view of a question names exactly the action that continues the task. A plain comment is enough for the agent's
// question, unless escalation.plain_answers = false. Any other question needs a command.
func TestAsksForWhatContinues(t *testing.T) {
	t.Parallel()
	const asks = `echo "Which colour?" > .retake/question.md`
	for name, c := range map[string]struct {
		plainAnswers bool
		agent        string
		plain        bool // a comment without a command is the answer
	}{
		"question":           {true, asks, true},
		"question, discuss":  {false, asks, false},
		"failure":            {true, `echo "fatal: no such table" >&2; exit 1`, false},
		"failure, discussed": {false, `echo "fatal: no such table" >&2; exit 1`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newReal(t, map[string]string{"agent": c.agent}, code("agent"))
			s.config.Escalation.PlainAnswers = c.plainAnswers
			s.config.Escalation.RemindAfter = time.Second
			s.config.Director.MaxRetries = 1
			v := s.visited()
			key := s.github.CreateIssue(repo, "octocat", "Paint", "", "agent-task")
			s.start()
			views := map[string]string{"comment": s.question(key)}
			s.until("a reminder", func() bool {
				views["reminder"] = s.commentOn(key, "Please answer [the question")
				return views["reminder"] != ""
			})
			s.github.AddComment(key, "octocat", "/agent why")
			s.until("a reply", func() bool {
				views["/agent why"] = s.commentOn(key, "It is waiting for")
				return views["/agent why"] != ""
			})
			told := s.explained(key)
			var explained bytes.Buffer
			must(t, told.Explain(&explained, time.Now()))
			views["explain"] = explained.String()
			views["page"] = html.UnescapeString(v.get("/tasks/" + strings.Replace(key, "#", "/", 1)))
			for view, text := range views {
				if got := strings.Contains(strings.ToLower(text), "plain comment is enough"); got != c.plain {
					t.Errorf("the %s invites a plain comment: %t, want %t\n%s", view, got, c.plain, text)
				}
				if !c.plain && !strings.Contains(text, "/agent ") {
					t.Errorf("the %s names no command:\n%s", view, text)
				}
			}
		})
	}
}

// commentOn returns the last comment with a text on an issue, or "".
func (s *harness) commentOn(key, text string) (found string) {
	for _, c := range s.github.Issue(key).Comments {
		if strings.Contains(c.Body, text) {
			found = c.Body
		}
	}
	return found
}

// tellsItsPlaces prints the paths of its checkout, home and temporary directory.
const tellsItsPlaces = `echo "$PWD/agent.sh: it broke in $PWD, HOME=$HOME/.cache TMPDIR=$TMPDIR"` + " >&2\n"

// public returns everything on GitHub that people read.
func (s *harness) public() string {
	var all strings.Builder
	for _, i := range s.github.Issues(repo) {
		all.WriteString(i.Title + "\n" + i.Body + "\n")
		for _, c := range i.Comments {
			all.WriteString(c.Body + "\n")
		}
	}
	return strings.NewReplacer("\\", "", "\u200b", "").Replace(all.String())
}

// hidesItsPlaces fails the test if GitHub shows a path of the director's machine.
func (s *harness) hidesItsPlaces(want string) {
	s.t.Helper()
	text := s.public()
	if strings.Contains(text, s.config.Director.DataDir) {
		s.t.Errorf("GitHub shows %s:\n%s", s.config.Director.DataDir, text)
	}
	if !strings.Contains(text, want) {
		s.t.Errorf("GitHub does not show %q:\n%s", want, text)
	}
}

// TestAsksWithoutThePathsOfTheMachine checks that a question shows paths relative to the checkout.
func TestAsksWithoutThePathsOfTheMachine(t *testing.T) {
	t.Parallel()
	s := newReal(t, map[string]string{"agent": tellsItsPlaces + "exit 1"}, code("agent"))
	s.config.Director.MaxRetries = 1
	key := s.github.CreateIssue(repo, "octocat", "Paint", "", "agent-task")
	s.start()
	s.question(key)
	s.hidesItsPlaces("agent.sh: it broke in ., HOME=~/.cache")
}

// TestDeliversWithoutThePathsOfTheMachine checks that a pull request lists the cause of an earlier attempt in the same
// words.
func TestDeliversWithoutThePathsOfTheMachine(t *testing.T) {
	t.Parallel()
	s := newReal(t, map[string]string{
		"agent": "[ -e new.txt ] && echo more >> new.txt && exit 0\necho x > new.txt\n" + tellsItsPlaces + "exit 1",
	}, code("agent"))
	key := s.github.CreateIssue(repo, "octocat", "Paint", "", "agent-task")
	s.start()
	s.until("the pull request of "+key, s.labelled(key, "agent-review"))
	s.hidesItsPlaces("agent.sh: it broke in ., HOME=~/")
}
