package fsmtest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"retake/internal/fsm"
)

// issue is an issue on GitHub.
type issue struct {
	key       fsm.IssueKey
	open      bool
	labels    labels
	nonce     string // nonce of the claim that holds it; "foreign" if another party holds it
	claims    int    // number of nonces so far, for the explorer
	changed   int64  // time of the last change, in whole seconds as on GitHub
	asked     string // the open escalation, if any
	question  int64  // id of its comment
	answer    string // a command that the director has not answered
	delivered string // the attempt that last published its work
	removed   bool   // a person removed the blocked label
	pull      *pull

	work        int    // the work in the checkout; each attempt with an agent makes different work
	validated   int    // the work in the last clean container
	validatedBy string // the attempt of that container

	deliveredAt int    // the number of the attempt in delivered
	reclaimed   string // the last claim that restored its labels between attempts
	reclaimedAt int    // its number of attempts at that time
	answersAt   int    // its number of answers at that time
	ended       string // the claim that ended last

	priority int
	capped   bool
	after    *issue // must be closed first, if set
	closed   bool   // a person has closed it; it may be open again
}

// offered reports whether the issue is open and has the task label.
func (i *issue) offered() bool { return i.open && i.labels&taskLabel != 0 }

// halfClaimed reports whether a claim was interrupted between its two label changes.
func (i *issue) halfClaimed() bool { return i.offered() && i.labels&claimedLabel != 0 && i.nonce == "" }

// labels is a set of our labels.
type labels uint8

const (
	taskLabel labels = 1 << iota
	claimedLabel
	blockedLabel
	reviewLabel
)

// roles lists the labels in bit order.
var roles = []fsm.Label{fsm.LabelTask, fsm.LabelClaimed, fsm.LabelBlocked, fsm.LabelReview}

var labelSets = func() (sets [16][]fsm.Label) {
	for set := range sets {
		for i, l := range roles {
			if set&(1<<i) != 0 {
				sets[set] = append(sets[set], l)
			}
		}
	}
	return sets
}()

const foreign = "foreign"

func (w *hub) issue(k fsm.IssueKey) *issue {
	if i := w.byKey[k]; i != nil {
		return i
	}
	for _, i := range w.issues {
		if i.key == k {
			return i
		}
	}
	panic("no issue " + string(k))
}

func (w *hub) touch(i *issue) { i.changed = w.now / seconds(1) }

func (w *hub) relabel(i *issue, l labels, nonce string) {
	i.labels, i.nonce = l, nonce
	w.touch(i)
}

// claim carries out a claim. A repeated claim succeeds again.
func (w *hub) claim(i *issue, e fsm.Effect) *fsm.ClaimResult {
	if i.nonce == "" && i.open && i.labels&taskLabel != 0 && w.fault(githubTaken) {
		w.relabel(i, claimedLabel, foreign)
		w.after(w.delay(4000), func() {
			if i.nonce == foreign {
				w.relabel(i, taskLabel, "")
			}
		})
	}
	if i.ended == e.Nonce {
		return &fsm.ClaimResult{Why: "late"} // the successor has ended the claim
	}
	if i.nonce == e.Nonce && (i.asked != "" && answers(i.asked) >= e.Answers ||
		strings.HasPrefix(i.delivered, e.Nonce+"-") && i.deliveredAt > e.Attempt) {
		// the successor has already asked the question or delivered the work
		return &fsm.ClaimResult{Why: "late"}
	}
	ours := i.open && (i.nonce == e.Nonce || i.nonce == "" && i.labels&taskLabel != 0)
	switch {
	case ours:
		if e.Attempt > 0 {
			i.reclaimed, i.reclaimedAt, i.answersAt = e.Nonce, e.Attempt, e.Answers
		}
		i.asked, i.answer, i.removed = "", "", false
		w.relabel(i, claimedLabel, e.Nonce)
		return &fsm.ClaimResult{Ours: true}
	case i.nonce == e.Nonce: // undo an interrupted claim
		w.relabel(i, i.labels&^claimedLabel, "")
	}
	return &fsm.ClaimResult{Why: "not eligible"}
}

// answers returns the number of people's answers in an effect's id.
func answers(effect string) int {
	_, kind, _ := strings.Cut(effect, "/")
	_, n, _ := strings.Cut(kind, ".")
	known, _ := strconv.Atoi(n)
	return known
}

func (w *hub) escalate(i *issue, e fsm.Effect) {
	if i.nonce != e.Nonce && i.nonce != "" || i.asked == e.ID || i.ended == e.Nonce { // released by the successor
		return
	}
	i.asked, i.answer, i.removed = e.ID, "", false
	w.losses.asked(e)
	w.relabel(i, blockedLabel, e.Nonce)
}

func (w *hub) release(i *issue, e fsm.Effect) {
	if i.nonce != e.Nonce && i.nonce != "" {
		return
	}
	l := labels(0)
	if e.Release.Restore {
		l = taskLabel
	}
	i.asked, i.answer, i.removed = "", "", false
	i.ended = e.Nonce
	w.relabel(i, l, "")
}

// tidy removes all of Retake's labels except the one for the task's state.
func (w *hub) tidy(i *issue, own fsm.Label) {
	set := labels(1) << slices.Index(roles, own)
	if i.labels&set == 0 || i.labels == set {
		return
	}
	w.tell("    world: %s keeps %s", i.key, own)
	i.labels = set
	w.touch(i)
}

// poll reads changes since the machine's cursor every half minute. If whole is set, it also reads all open issues
// with our labels, until GitHub has answered once.
func (w *shell) poll(p *process, whole bool) {
	if p.dead || p == w.directors.stale || w.bad != nil {
		return
	}
	answered := p.asleep <= w.now && !p.closed() && w.hub.answers()
	defer w.after(w.interval(30), func() { w.poll(p, whole && !answered) })
	if !answered {
		return
	}
	if p.refused > 0 && w.now > p.refused+seconds(600) { // the cursor may have passed the issue
		whole, p.refused = true, 0
	}
	for _, r := range w.hub.repos {
		w.ask(p, r, whole)
	}
}

// ask reads one repository.
func (w *shell) ask(p *process, repo string, whole bool) {
	cursor := p.m.ReadTo(repo)
	since, _ := strconv.ParseInt(cursor, 10, 64)
	seen := fsm.IssuesSeen{Repo: repo, Cursor: cursor, AskedAt: w.wall(p)}
	newest := since
	for _, i := range w.hub.issues {
		listed := i.open && i.labels&(taskLabel|claimedLabel|blockedLabel) != 0 && (whole || cursor == "")
		if i.key.Repo() == repo && (listed || cursor != "" && i.changed >= since) {
			seen.Issues = append(seen.Issues, w.hub.viewOf(i))
			newest = max(newest, i.changed)
		}
	}
	if len(seen.Issues) == 0 {
		return
	}
	seen.Cursor = strconv.FormatInt(newest, 10)
	w.after(w.delay(3), func() { w.directors.offer(p, seen, nil) })
}

// closed reports whether GitHub is closed for the process.
func (p *process) closed() bool {
	for _, c := range p.m.Cooldowns() {
		if c.Resource == fsm.GitHubRead || c.Resource == fsm.GitHubWrite || c.Resource == fsm.GitHubAPI {
			return true
		}
	}
	return false
}

// view returns one issue as the director sees it.
func (w *hub) view(p *process, i *issue) fsm.IssuesSeen {
	return fsm.IssuesSeen{Repo: i.key.Repo(), AskedAt: w.wall(p), Issues: []fsm.IssueView{w.viewOf(i)}}
}

func (w *hub) viewOf(i *issue) fsm.IssueView {
	v := fsm.IssueView{
		Key: i.key, Title: "widget", Open: i.open, Labels: labelSets[i.labels],
		UpdatedAt: epoch.Add(time.Duration(i.changed) * time.Second),
	}
	v.Standing = i.standing()
	if i.open && i.labels&taskLabel != 0 {
		w.claims++
		v.Nonce = fmt.Sprintf("n%d", w.claims)
		// derived from the issue, so that the order of claims is irrelevant
		if w.explored {
			i.claims++
			v.Nonce = fmt.Sprintf("%c%d", i.key[2], i.claims)
		}
	}
	return v
}

// read offers the director a person's answer on a blocked issue. The director cannot learn of answers in any other way.
// If a replaced director has removed the label of an open question, read restores it.
func (w *shell) read(p *process, i *issue) {
	if p.dead || w.bad != nil {
		return
	}
	hints := []fsm.Hint{{
		From: "octocat", At: epoch.Add(time.Duration(i.changed) * time.Second),
		Text: "try the other table",
	}}
	switch {
	case i.removed:
		w.directors.offer(p, fsm.QuestionAnswered{
			Task: i.key, By: "octocat", Command: "removed the blocked label",
			Hints: hints,
		},
			func() {})
	case i.answer != "":
		answer := i.answer
		w.directors.offer(p, fsm.QuestionAnswered{
			Task: i.key, By: "octocat", Command: answer, Comment: i.changed,
			Hints: hints,
		},
			func() {
				if i.answer == answer {
					i.answer = "" // the director has answered the command
				}
			})
	case i.open && i.asked != "" && i.labels&blockedLabel == 0:
		w.tell("    world: %s is %s again", i.key, fsm.LabelBlocked)
		w.hub.relabel(i, blockedLabel, i.nonce)
	}
}

// reclaim ends a claim without a task if its issue has not changed for a long time. Until then, an interrupted claim
// may still continue.
func (w *shell) reclaim(p *process, i *issue) {
	if p.dead || w.bad != nil || p.m.Task(i.key) != nil {
		return
	}
	quiet := w.now - i.changed*seconds(1)
	switch {
	case i.halfClaimed() && quiet <= seconds(60):
		w.after(seconds(60)-quiet+1, func() { w.reclaim(p, i) })
	case i.halfClaimed():
		w.hub.relabel(i, i.labels&^claimedLabel, "")
	case i.nonce != "" && i.nonce != foreign && quiet > max(int64(w.directors.set.cfg.ClaimStale), seconds(900)):
		w.hub.relabel(i, taskLabel, "")
	}
}

// people simulates people: sometimes they answer questions, offer finished work again, or interfere.
func (w *hub) people() {
	w.after(seconds(60)+w.delay(800), w.people)
	i := w.issues[w.choices.pick(atHuman, len(w.issues))]
	switch {
	case w.faultsStopped, w.choices.pick(atHuman, 4) == 0:
		return
	case w.fault(humanMeddles):
		w.meddle(i)
	case w.choices.pick(atHuman, 3) == 2:
		w.speak(i)
		return
	case i.pull != nil && i.pull.state == "open":
		w.review(i)
		return
	case i.labels&blockedLabel != 0 && w.choices.pick(atHuman, 2) == 0:
		i.labels, i.removed = i.labels&^blockedLabel, true
		w.tell("a person removes the blocked label from %s", i.key)
	case i.labels&blockedLabel != 0:
		i.answer = "/agent retry"
		w.tell("a person writes /agent retry on %s", i.key)
	case i.labels == reviewLabel && i.nonce != "":
		i.labels |= taskLabel // this gives up the work in review
		w.tell("a person offers %s again", i.key)
	case i.labels == reviewLabel || i.labels == 0:
		i.open, i.labels, i.nonce = true, taskLabel, "" // this also ends an abandoned claim
		w.tell("somebody offers %s", i.key)
	default:
		return
	}
	w.touch(i)
}

func (i *issue) setOpen(open bool) { i.open, i.closed = open, i.closed || !open }

func (w *hub) meddle(i *issue) {
	switch w.choices.pick(humanMeddles, 6) {
	case 0:
		i.setOpen(!i.open)
	case 1:
		i.labels &^= claimedLabel
	case 2:
		i.labels |= taskLabel
	case 3:
		i.labels &^= taskLabel
	case 4:
		i.labels, i.removed = i.labels&^blockedLabel, i.removed || i.labels&blockedLabel != 0
	case 5:
		i.labels &^= reviewLabel
	}
	w.tell("a person changes %s: open %t, labels %v", i.key, i.open, labelSets[i.labels])
}
