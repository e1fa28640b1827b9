package fsmtest

import (
	"fmt"
	"slices"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

// A world with a backlog has a long queue in one repository, a short one in another, more workers than other worlds,
// and GitHub's limit on new content.
const (
	backlogEvery  = 200 // one in this many worlds has a backlog
	backlogIssues = 1000
	backlogShort  = 50 // issues in the second repository, labelled last
	backlogSlots  = 20
)

// backlog gives some worlds a backlog. It draws from a separate track of choices, so the other worlds do not change.
// Work is delivered as a branch, because the director would poll each open pull request.
func (w *world) backlog() {
	if w.choices.pick(atBacklog, backlogEvery) < backlogEvery-1 {
		return
	}
	w.hub.byKey = map[fsm.IssueKey]*issue{}
	for _, i := range w.hub.issues {
		w.hub.byKey[i.key] = i
	}
	for n := len(w.hub.issues); n < backlogIssues; n++ {
		repo := "acme/widgets"
		if n >= backlogIssues-backlogShort {
			repo = "acme/gadgets"
		}
		w.hub.add(&issue{key: fsm.IssueKey(fmt.Sprintf("%s#%d", repo, 1000+n)), open: true, labels: taskLabel})
	}
	w.rates[settingsRead] = 0 // a new configuration would reduce the number of workers
	w.hub.withPulls = false
	w.hub.pace = &pace{stage: w.stage}
	w.directors.set.cfg.MaxWorkers = backlogSlots
}

// pace limits new content as the director's gate does, but in the worst order for finished work: claims come first. The
// pause between turns is long enough that claims can take every turn.
type pace struct {
	*stage
	waiting []paced
	busy    bool    // the next turn is scheduled
	open    int64   // earliest time of the next turn
	created []int64 // creation times of the last hour's content
}

// paced is an effect that creates content.
type paced struct {
	p    *process
	kind fsm.EffectKind
	do   func()
}

// The gate's limits on new content.
const (
	contentPause   = 12
	contentPerHour = 480
)

// creates reports whether the world limits new content and effects of this kind create any.
func (w *pace) creates(k fsm.EffectKind) bool {
	return w != nil && (k == fsm.DoClaim || k == fsm.DoDeliver || k == fsm.DoEscalate)
}

// wait calls do when the effect's turn comes.
func (w *pace) wait(p *process, k fsm.EffectKind, do func()) {
	w.waiting = append(w.waiting, paced{p, k, do})
	w.schedule()
}

func (w *pace) schedule() {
	if !w.busy && len(w.waiting) > 0 {
		w.busy = true
		w.after(max(w.open-w.now, 0), w.next)
	}
}

// next starts a turn. It drops the effects of dead directors.
func (w *pace) next() {
	w.busy = false
	w.waiting = slices.DeleteFunc(w.waiting, func(t paced) bool { return t.p.dead })
	if len(w.waiting) == 0 {
		return
	}
	first := max(slices.IndexFunc(w.waiting, func(t paced) bool { return t.kind == fsm.DoClaim }), 0)
	do := w.waiting[first].do
	w.waiting = slices.Delete(w.waiting, first, first+1)
	w.open = w.now + seconds(contentPause)
	w.schedule()
	do()
}

// refuse returns the failure of an effect that exceeds the hourly content limit. Otherwise it counts the effect and
// returns nil. The limit for claims is lower, because claimed issues still need content.
func (w *pace) refuse(p *process, k fsm.EffectKind) *fsm.EffectError {
	w.created = slices.DeleteFunc(w.created, func(at int64) bool { return at <= w.now-seconds(3600) })
	most, closed := contentPerHour, ""
	if k == fsm.DoClaim {
		most, closed = most-min(p.m.Owed(), most/2), fsm.GitHubClaims
	}
	if n := len(w.created) - most; n >= 0 && k != fsm.DoEscalate {
		until := w.created[n] + seconds(3600) + 1
		return &fsm.EffectError{
			Reason: recovery.RateLimited, Text: "the hourly content limit is reached", Transient: true,
			Resource: recovery.GitHubAPI, Closed: closed, Until: epoch.Add(time.Duration(until + p.skew)),
		}
	}
	w.created = append(w.created, w.now)
	return nil
}

// handInWithin limits how long finished work may wait for delivery once faults have stopped, unless GitHub is closed.
// It allows for the finished work and the claims of all workers in a backlog, each with a pause.
const handInWithin = 20 * time.Minute

// handedInTime checks that claims do not starve finished work.
func handedInTime(r record, m fsm.Moved) string {
	switch {
	case r.stopped.IsZero():
	case m.From == fsm.Delivering:
		return r.waitedFor(r.c, r.at)
	case m.From == fsm.Queued && m.On == fsm.OnDispatch:
		for _, c := range r.begun {
			if wrong := r.waitedFor(c, r.at); wrong != "" {
				return fmt.Sprintf("%s is claimed, although %s", m.Task, wrong)
			}
		}
	}
	return ""
}

func handedInAtRest(h *history, p *process) string {
	for _, c := range h.begun {
		if wrong := h.waitedFor(c, p.m.Now()); wrong != "" {
			return wrong
		}
	}
	return ""
}

func (h *history) waitedFor(c *claim, at time.Time) string {
	if c.state != fsm.Delivering {
		return ""
	}
	open := h.limits.until
	waited := at.Sub(latest(c.since, h.stopped, open[fsm.GitHubRead], open[fsm.GitHubWrite], open[fsm.GitHubAPI]))
	if h.waited = max(h.waited, waited); waited > handInWithin {
		return fmt.Sprintf("%s has been waiting for delivery for %s", c.key, waited)
	}
	return ""
}

// takesTurns checks that the next claim is in the repository that has waited longest since its last claim, unless a
// worker is already in that repository. A long queue therefore cannot starve a short one, even with a single worker.
func takesTurns(r record) string {
	if r.hasIncident() {
		return ""
	}
	working, heads := map[string]bool{}, map[string]*claim{}
	for _, c := range r.begun {
		if c.state.Info().Slot || c.rereads() {
			working[c.key.Repo()] = true
		}
	}
	for _, c := range r.claims {
		head := heads[c.key.Repo()]
		if c.state == fsm.Queued && len(c.standing.After)+len(c.standing.Capped) == 0 &&
			(head == nil || c.turn().Before(head.turn())) {
			heads[c.key.Repo()] = c
		}
	}
	for _, repo := range r.w.hub.repos {
		o := heads[repo]
		if o != nil && repo != r.c.key.Repo() && !working[repo] && r.turnOf(o).Before(r.turnOf(r.c)) {
			return fmt.Sprintf("%s is claimed, although %s has waited longer without a worker", r.c.key, repo)
		}
	}
	return ""
}

// turnOf is like turn, but counts the wait from the repository's last claim if that is later.
func (h *history) turnOf(c *claim) time.Time {
	return latest(c.since, h.served[c.key.Repo()]).Add(-time.Duration(c.standing.Priority) * time.Hour)
}
