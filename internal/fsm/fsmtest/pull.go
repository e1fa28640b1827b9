package fsmtest

import (
	"fmt"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

// pull is a pull request on GitHub.
type pull struct {
	number   int
	nonce    string // of the claim whose work it is
	state    string // open, merged or closed
	head     int    // deliveries so far
	settles  int64  // when the checks of the head have all ended
	failing  bool   // one of them fails
	conflict bool
	changes  []fsm.Change
}

// commit names the newest one: another pull request of the same claim has others.
func (p *pull) commit() string { return fmt.Sprintf("%d.%d", p.number, p.head) }

// deliver shows the work. Doing it again finds what it made, and sets the labels.
func (w *world) deliver(i *issue, e fsm.Effect) fsm.EffectEnded {
	if i.delivered != e.Worker {
		switch {
		case !i.open || e.Attempt == 3 && w.fault(humanMeddles):
			// of a few: what comes after a delivery is worth seeing, too
			i.setOpen(false)
			w.touch(i)
			return fsm.EffectEnded{Claim: &fsm.ClaimResult{Why: "the issue was closed"}}
		case w.fault(nothingDone):
			return fsm.EffectEnded{Delivery: &fsm.DeliverResult{Nothing: true}}
		case w.fault(baseConflicts):
			if e.Attempt%2 == 0 {
				return fsm.EffectEnded{Failure: &fsm.EffectError{
					Reason: recovery.WorkLost,
					Text:   "the record of the checkout is damaged",
				}}
			}
			return fsm.EffectEnded{Failure: conflictWithBase()}
		case e.Deliver.Validate && w.fault(baseMoves):
			return fsm.EffectEnded{Delivery: &fsm.DeliverResult{Merged: true}}
		case w.fault(workChanges):
			w.works++
			i.work = w.works
		}
		switch validated := i.validated == i.work && i.validatedBy == e.Worker; {
		case !e.Deliver.Validated || validated:
		case e.Deliver.Validate:
			return fsm.EffectEnded{Delivery: &fsm.DeliverResult{Changed: true}}
		default:
			return fsm.EffectEnded{Failure: &fsm.EffectError{
				Reason: recovery.Validation,
				Text:   "the work is not what was validated",
			}}
		}
	}
	w.history.shown(i, e)
	work := &fsm.DeliverResult{Branch: "retake/" + e.Nonce, SHA: e.Worker}
	// for a director that was replaced meanwhile
	late := i.ended == e.Nonce || i.reclaimed == e.Nonce && e.Attempt <= i.reclaimedAt && e.Answers < i.answersAt
	switch {
	case late || i.nonce != e.Nonce && i.nonce != "":
	case w.withPulls:
		if i.delivered != e.Worker {
			w.show(i, e.Nonce)
			w.touch(i)
		}
		i.delivered, i.deliveredAt = e.Worker, e.Attempt
		if i.labels != reviewLabel || i.nonce != e.Nonce {
			w.relabel(i, reviewLabel, e.Nonce)
		}
	default:
		i.delivered, i.deliveredAt = e.Worker, e.Attempt
		w.relabel(i, reviewLabel, "")
	}
	if w.withPulls && i.pull != nil && i.pull.nonce == e.Nonce {
		work.PullRequest = i.pull.number
	}
	return fsm.EffectEnded{Delivery: work}
}

func conflictWithBase() *fsm.EffectError {
	return &fsm.EffectError{Reason: recovery.GitConflict, Text: "both changed main.go", Resource: recovery.GitHubGit}
}

// question asks people, and may show them what there is of the work.
func (w *world) question(i *issue, e fsm.Effect) fsm.EffectEnded {
	w.escalate(i, e)
	if e.Attempt == 0 || !w.explored && w.choices.pick(atReview, 2) == 0 {
		return fsm.EffectEnded{}
	}
	return fsm.EffectEnded{Delivery: &fsm.DeliverResult{Branch: "retake/" + e.Nonce, SHA: e.Worker}}
}

// show makes the pull request of a claim's work, or a new head of the one that is open.
func (w *world) show(i *issue, nonce string) {
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

// watch looks at the pull requests of idle tasks now and then, and tells people of incidents.
func (w *world) watch(p *process) {
	if p.dead || p == w.stale || w.bad != nil {
		return
	}
	w.after(w.interval(60), func() { w.watch(p) })
	if p.asleep > w.now || w.closed(p) || !w.answers() {
		return
	}
	for _, t := range p.m.Tasks() {
		if t.Work.PullRequest > 0 {
			w.look(p, w.issue(t.Key), t.Work.PullRequest)
		}
	}
	w.showIncidents(p)
}

// look reads one pull request.
func (w *world) look(p *process, i *issue, number int) {
	if i.pull == nil || i.pull.number != number {
		return
	}
	seen := w.pullSeen(p, i)
	w.after(w.delay(3), func() { w.offer(p, seen, nil) })
}

// pullSeen is what a look at an issue's pull request says.
func (w *world) pullSeen(p *process, i *issue) fsm.ReviewSeen {
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

// showIncidents keeps an issue for each incident that keeps work back.
func (w *world) showIncidents(p *process) {
	const issue = "acme/widgets#99"
	for _, i := range p.m.Incidents() {
		if i.Issue == "" && i.Breaker.KeepsBack(p.m.Now()) {
			w.offer(p, fsm.IncidentShown{Key: i.Key, Issue: issue}, nil)
		}
	}
	for _, i := range w.history.incidents {
		if i.Issue != "" && i.Breaker.State(p.m.Now()) == recovery.BreakerClosed {
			w.offer(p, fsm.IncidentShown{Key: i.Key}, nil)
		}
	}
}

// review is what people do with an open pull request, or the base branch to it.
func (w *world) review(i *issue) {
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
	w.tell("somebody reviews #%d of %s: %s, %d reviews, conflict %t, open %t, labels %v", x.number, i.key, x.state,
		len(x.changes), x.conflict, i.open, labelSets[i.labels])
	w.touch(i)
}

// reviewOpen says what a review still has to lead to; empty: nothing.
func (w *world) reviewOpen(t *fsm.Task) string {
	i := w.issue(t.Key)
	switch x := i.pull; {
	case t.State != fsm.InReview:
	case x == nil || x.number != t.Work.PullRequest:
		return fmt.Sprintf("%s is InReview, and #%d is not its pull request", t.Key, t.Work.PullRequest)
	case x.state != "open" || !i.open:
		return fmt.Sprintf("%s is InReview, its pull request is %s, the issue open: %t", t.Key, x.state, i.open)
	case x.settles > w.now:
		return fmt.Sprintf("the checks of #%d go on", x.number)
	}
	return ""
}
