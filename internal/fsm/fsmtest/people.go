package fsmtest

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

// comment is a comment by a person with write access. An edit keeps its id.
type comment struct {
	said fsm.CommentView
	at   int64 // time of the last edit, in seconds (GitHub's resolution)
}

// spoken lists the comments that people make: commands and plain text.
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

// speak lets a person comment on an issue, or edit the last comment on it.
func (w *hub) speak(i *issue) {
	s := spoken[w.choices.pick(atComment, len(spoken))]
	s.Task, s.By = i.key, "octocat"
	c := &comment{at: w.now / seconds(1)}
	last := slices.IndexFunc(w.comments, func(c *comment) bool {
		return c.said.Task == i.key && c.at < w.now/seconds(1)
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
	w.tell("a person comments %q %q on %s: comment %d", s.Command, s.Text, i.key, s.Comment)
}

// listen reads the comments of every repository, from the machine's cursor.
func (w *shell) listen(p *process) {
	if p.dead || p == w.directors.stale || w.bad != nil {
		return
	}
	w.after(w.interval(30), func() { w.listen(p) })
	if p.asleep > w.now || p.listening > 0 || p.closed() || !w.hub.answers() {
		return
	}
	for _, r := range w.hub.repos {
		w.readComments(p, r)
	}
}

func (w *shell) readComments(p *process, repo string) {
	seen, news := w.commentsSeen(p, repo)
	if !news {
		return
	}
	p.listening++ // delay the next read, which would otherwise use the same cursor
	w.after(w.delay(3), func() {
		w.directors.offer(p, seen, nil)
		p.listening--
	})
}

// commentsSeen returns the result of reading a repository's comments.
func (w *shell) commentsSeen(p *process, repo string) (seen fsm.CommentsSeen, news bool) {
	cursor := p.m.Cursor(fsm.CommentsOf(repo))
	seen = fsm.CommentsSeen{Repo: repo, Cursor: strconv.FormatInt(w.now/seconds(1), 10)}
	if cursor != "" { // without a cursor, earlier comments do not count
		since, _ := strconv.ParseInt(cursor, 10, 64)
		newest := since
		for _, c := range w.hub.comments {
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

// unheard describes a command that the director has not decided on, or returns "".
func (w *operator) unheard() string {
	for _, r := range w.hub.repos {
		first, listens := w.directors.history.listens[r]
		for _, c := range w.hub.comments {
			if !listens || c.said.Task.Repo() != r || c.at < first || c.said.Command == "" {
				continue
			}
			if _, taken := w.directors.history.taken[c.said.CommandRef]; !taken {
				return fmt.Sprintf("comment %d on %s is undecided: %s", c.said.Comment, c.said.Task, c.said.Command)
			}
		}
	}
	return w.unanswered()
}

// capped is a label that is capped at one worker (see order).
const capped = "area/db"

// order gives the issues of some worlds priorities, a cap, and a dependency on an issue that Retake does not handle.
func (w *world) order() {
	if w.choices.pick(atStanding, 8) < 7 {
		return
	}
	w.directors.set.cfg.Caps = map[string]int{capped: 1}
	for _, i := range w.hub.issues {
		i.priority = w.choices.pick(atStanding, 5) - 2
		i.capped = w.choices.pick(atStanding, 2) == 1
	}
	late := w.hub.issues[w.choices.pick(atStanding, len(w.hub.issues))]
	first := &issue{key: fsm.IssueKey(late.key.Repo() + "#90"), open: true}
	w.hub.add(first)
	late.after = first
	w.after(w.delay(4000), func() {
		first.setOpen(false)
		w.tell("somebody closes %s", first.key)
		w.hub.touch(first)
	})
}

// waits reports whether another issue must be closed first. That issue may have been reopened.
func (i *issue) waits() bool { return i.after != nil && i.after.open }

// standing returns the issue's priority, caps and dependencies.
func (i *issue) standing() (s fsm.Standing) {
	s.Priority = i.priority
	if i.capped {
		s.Capped = []string{capped}
	}
	if i.waits() {
		s.After = []fsm.IssueKey{i.after.key}
	}
	return s
}

// pull is a pull request on GitHub.
type pull struct {
	number   int
	nonce    string // nonce of the claim that produced the work
	state    string // open, merged or closed
	head     int    // deliveries so far
	settles  int64  // when all checks of the head have finished
	failing  bool   // a check of the head has failed
	conflict bool
	changes  []fsm.Change
}

// commit returns the id of the newest commit. Pull requests of the same claim have different commits.
func (p *pull) commit() string { return fmt.Sprintf("%d.%d", p.number, p.head) }

// deliver publishes the work. A repeated delivery returns the first result, and sets the labels.
func (w *shell) deliver(i *issue, e fsm.Effect) fsm.EffectEnded {
	if i.delivered != e.Worker {
		switch {
		case !i.open || e.Attempt == 3 && w.fault(humanMeddles):
			// rare, because the events after a delivery are more interesting
			i.setOpen(false)
			w.hub.touch(i)
			return fsm.EffectEnded{Claim: &fsm.ClaimResult{Why: "the issue was closed"}}
		case w.fault(nothingDone):
			return fsm.EffectEnded{Delivery: &fsm.DeliverResult{Nothing: true}}
		case w.fault(baseConflicts):
			if e.Attempt%2 == 0 {
				return fsm.EffectEnded{Failure: &fsm.EffectError{
					Reason: recovery.WorkLost,
					Text:   "the checkout record is damaged",
				}}
			}
			return fsm.EffectEnded{Failure: conflictWithBase()}
		case e.Deliver.Validate && w.fault(baseMoves):
			return fsm.EffectEnded{Delivery: &fsm.DeliverResult{Merged: true}}
		case w.fault(workChanges):
			w.hub.works++
			i.work = w.hub.works
		}
		switch validated := i.validated == i.work && i.validatedBy == e.Worker; {
		case !e.Deliver.Validated || validated:
		case e.Deliver.Validate:
			return fsm.EffectEnded{Delivery: &fsm.DeliverResult{Changed: true}}
		default:
			return fsm.EffectEnded{Failure: &fsm.EffectError{
				Reason: recovery.Validation,
				Text:   "the work differs from the validated work",
			}}
		}
	}
	w.directors.history.shown(i, e)
	work := &fsm.DeliverResult{Branch: "retake/" + e.Nonce, SHA: e.Worker}
	// a replaced director may be late
	late := i.ended == e.Nonce || i.reclaimed == e.Nonce && e.Attempt <= i.reclaimedAt && e.Answers < i.answersAt
	switch {
	case late || i.nonce != e.Nonce && i.nonce != "":
	case w.hub.withPulls:
		if i.delivered != e.Worker {
			w.hub.show(i, e.Nonce)
			w.hub.touch(i)
		}
		i.delivered, i.deliveredAt = e.Worker, e.Attempt
		if i.labels != reviewLabel || i.nonce != e.Nonce {
			w.hub.relabel(i, reviewLabel, e.Nonce)
		}
	default:
		i.delivered, i.deliveredAt = e.Worker, e.Attempt
		w.hub.relabel(i, reviewLabel, "")
	}
	if w.hub.withPulls && i.pull != nil && i.pull.nonce == e.Nonce {
		work.PullRequest = i.pull.number
	}
	return fsm.EffectEnded{Delivery: work}
}

func conflictWithBase() *fsm.EffectError {
	return &fsm.EffectError{Reason: recovery.GitConflict, Text: "both changed main.go", Resource: recovery.GitHubGit}
}

// question asks people, and may publish the work so far.
func (w *hub) question(i *issue, e fsm.Effect) fsm.EffectEnded {
	if i.asked != e.ID {
		w.said++
		i.question = int64(w.said)
	}
	w.escalate(i, e)
	asked := &fsm.Asked{Title: "a question", Comment: i.question, AgentAsked: i.question%2 == 0}
	if e.Attempt == 0 || !w.explored && w.choices.pick(atReview, 2) == 0 {
		return fsm.EffectEnded{Asked: asked}
	}
	return fsm.EffectEnded{Asked: asked, Delivery: &fsm.DeliverResult{Branch: "retake/" + e.Nonce, SHA: e.Worker}}
}

// show creates the pull request of a claim's work, or updates the open pull request.
func (w *hub) show(i *issue, nonce string) {
	if i.pull == nil || i.pull.nonce != nonce || i.pull.state != "open" {
		w.pulls++
		i.pull = &pull{number: 100 + w.pulls, nonce: nonce, state: "open"}
	}
	p := i.pull
	p.head++
	w.losses.shown(p)
	p.conflict, p.failing, p.settles = false, w.fault(checksFail), w.now
	if !w.explored {
		p.settles += w.delay(600)
	}
}

// watch regularly reads the pull requests of idle tasks, and shows incidents to people.
func (w *shell) watch(p *process) {
	if p.dead || p == w.directors.stale || w.bad != nil {
		return
	}
	w.after(w.interval(60), func() { w.watch(p) })
	if p.asleep > w.now || p.closed() || !w.hub.answers() {
		return
	}
	for _, t := range p.m.Tasks() {
		if t.Work.PullRequest > 0 {
			w.readPull(p, w.hub.issue(t.Key), t.Work.PullRequest)
		}
	}
	w.showIncidents(p)
}

// readPull reads one pull request.
func (w *shell) readPull(p *process, i *issue, number int) {
	if i.pull == nil || i.pull.number != number {
		return
	}
	seen := w.hub.pullSeen(p, i)
	w.after(w.delay(3), func() { w.directors.offer(p, seen, nil) })
}

// pullSeen returns the result of reading an issue's pull request.
func (w *hub) pullSeen(p *process, i *issue) fsm.ReviewSeen {
	x := i.pull
	seen := fsm.ReviewSeen{
		Task: i.key, AskedAt: w.wall(p), Number: x.number, State: x.state, By: "octocat", Head: x.commit(),
		IssueClosed: !i.open,
		Conflict:    x.conflict && x.state == "open", Settled: w.now >= x.settles,
		Changes: x.changes[:len(x.changes):len(x.changes)],
	}
	if x.failing && (seen.Settled || x.head%2 == 0) {
		seen.Failing = []fsm.FailedCheck{{Name: "lint", Text: "line too long"}}
	}
	return seen
}

// showIncidents keeps an issue for each incident that holds up work.
func (w *shell) showIncidents(p *process) {
	const issue = "acme/widgets#99"
	for _, i := range p.m.Incidents() {
		if i.Issue == "" && i.Breaker.KeepsBack(p.m.Now()) {
			w.directors.offer(p, fsm.IncidentShown{Key: i.Key, Issue: issue}, nil)
		}
	}
	for _, i := range w.directors.history.incidents {
		if i.Issue != "" && i.Breaker.State(p.m.Now()) == recovery.BreakerClosed {
			w.directors.offer(p, fsm.IncidentShown{Key: i.Key}, nil)
		}
	}
}

// review changes an open pull request, as people or a new commit on the base branch would.
func (w *hub) review(i *issue) {
	x := i.pull
	switch w.choices.pick(atReview, 7) {
	case 0:
		return
	case 1:
		x.state = "merged"
		i.setOpen(w.choices.pick(atReview, 2) == 0) // "Closes #1"
	case 2:
		x.state = "closed"
	case 3, 4:
		w.reviews++
		x.changes = append(x.changes, fsm.Change{
			ID:   int64(w.reviews),
			Hint: fsm.Hint{From: "octocat", At: epoch.Add(time.Duration(w.now)), Text: "use the other table"},
		})
	case 5:
		x.conflict = true
	case 6:
		i.labels |= taskLabel
	}
	w.tell("a person reviews #%d of %s: %s, %d reviews, conflict %t, open %t, labels %v", x.number, i.key, x.state,
		len(x.changes), x.conflict, i.open, labelSets[i.labels])
	w.touch(i)
}

// reviewOpen describes why a task in review is not at rest, or returns "".
func (w *hub) reviewOpen(t *fsm.Task) string {
	i := w.issue(t.Key)
	switch x := i.pull; {
	case t.State != fsm.InReview:
	case x == nil || x.number != t.Work.PullRequest:
		return fmt.Sprintf("%s is InReview, but #%d is not its pull request", t.Key, t.Work.PullRequest)
	case x.state != "open" || !i.open:
		return fmt.Sprintf("%s is InReview, but its pull request is %s (issue open: %t)", t.Key, x.state, i.open)
	case x.settles > w.now:
		return fmt.Sprintf("the checks of #%d are running", x.number)
	}
	return ""
}
