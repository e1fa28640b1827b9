package fsmtest

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"retake/internal/fsm"
)

// comment is what a person with write access said; an edit keeps its place and id.
type comment struct {
	said fsm.CommentView
	at   int64 // of its last edit, in seconds as GitHub tells it
}

// spoken are the commands that people give, and nothing.
var spoken = []fsm.CommentView{
	{Text: "try the other table"},
	{Command: fsm.CommandRetry},
	{Command: fsm.CommandRetry, Text: "with the other table"},
	{Command: fsm.CommandResume},
	{Command: fsm.CommandFresh},
	{Command: fsm.CommandFix, Text: "the test is flaky"},
	{Command: fsm.CommandSnooze, For: 10 * time.Minute},
	{Command: fsm.CommandSnooze, For: 2 * time.Hour},
	{Command: fsm.CommandBudget, Amount: 1},
	{Command: fsm.CommandBudget, Amount: 4},
	{Command: fsm.CommandStop},
	{Command: fsm.CommandTake},
	{Command: fsm.CommandWhy},
	{Command: fsm.CommandHelp},
}

// speak lets somebody comment on an issue, or edit the last comment on it.
func (w *world) speak(i *issue) {
	s := spoken[w.choices.pick(atComment, len(spoken))]
	s.Task, s.By = i.key, "octocat"
	c := &comment{at: w.now / seconds(1)}
	last := slices.IndexFunc(w.comments, func(c *comment) bool {
		return c.said.Task == i.key &&
			c.at < w.now/seconds(1)
	})
	if last >= 0 && w.choices.pick(atComment, 5) == 4 {
		s.Comment = w.comments[last].said.Comment
		w.comments = slices.Delete(w.comments, last, last+1)
	} else {
		w.said++
		s.Comment = int64(w.said)
	}
	s.At = epoch.Add(time.Duration(c.at) * time.Second)
	c.said = s
	w.comments = append(w.comments, c)
	w.tell("somebody says %q %q on %s: comment %d", s.Command, s.Text, i.key, s.Comment)
}

// listen reads the comments of every repository, from where the machine's cursor stands.
func (w *world) listen(p *process) {
	if p.dead || p == w.stale || w.bad != nil {
		return
	}
	w.after(w.interval(30), func() { w.listen(p) })
	if p.asleep > w.now || p.listening > 0 || w.closed(p) || !w.answers() {
		return
	}
	for _, r := range w.repos {
		w.readComments(p, r)
	}
}

func (w *world) readComments(p *process, repo string) {
	seen, news := w.commentsSeen(p, repo)
	if !news {
		return
	}
	p.listening++ // one look after the other, or the second would begin where the first did
	w.after(w.delay(3), func() {
		w.offer(p, seen, nil)
		p.listening--
	})
}

// commentsSeen is what a look at a repository's comments says.
func (w *world) commentsSeen(p *process, repo string) (seen fsm.CommentsSeen, news bool) {
	cursor := p.m.Cursor(fsm.CommentsOf(repo))
	seen = fsm.CommentsSeen{Repo: repo, Cursor: strconv.FormatInt(w.now/seconds(1), 10)}
	if cursor != "" { // without one, what was said before is nobody's
		since, _ := strconv.ParseInt(cursor, 10, 64)
		newest := since
		for _, c := range w.comments {
			if c.said.Task.Repo() == repo && c.at >= since {
				seen.Comments, newest = append(seen.Comments, c.said), max(newest, c.at)
			}
		}
		if len(seen.Comments) == 0 {
			return seen, false
		}
		seen.Cursor = strconv.FormatInt(newest, 10)
	}
	return seen, true
}

// unheard names a command that nobody has decided about yet.
func (w *world) unheard() string {
	for _, r := range w.repos {
		first, listens := w.history.listens[r]
		for _, c := range w.comments {
			if !listens || c.said.Task.Repo() != r || c.at < first || c.said.Command == "" {
				continue
			}
			if _, taken := w.history.taken[c.said.CommandRef]; !taken {
				return fmt.Sprintf("nobody has heard comment %d on %s: %s", c.said.Comment, c.said.Task, c.said.Command)
			}
		}
	}
	return w.unanswered()
}
