package fsmtest

import (
	"fmt"
	"slices"
	"strings"

	"retake/internal/fsm"
)

// losses records what survives the loss of a journal: checkouts, reports and comments. It is nil in worlds that keep
// their journal.
type losses struct {
	choices  *choices
	begun    map[string]int    // the last attempt with a prepared checkout, by nonce
	over     map[string]bool   // attempts with a container that is confirmed gone
	well     map[string]bool   // attempts with a lost success report
	question map[string]string // our latest question, as in fsm.Effect.About, by nonce
	half     map[string]string // our latest question if it has a comment but no label, by nonce
	gone     map[string]bool   // claims that lost their checkout
	followed map[int]int64     // the newest review that its head follows, by pull request
	happened int
}

func newLosses(seed uint64) *losses {
	return &losses{
		choices: newChoices(mix(seed)), begun: map[string]int{}, over: map[string]bool{}, question: map[string]string{},
		followed: map[int]int64{},
		half:     map[string]string{}, gone: map[string]bool{}, well: map[string]bool{},
	}
}

func (l *losses) began(e fsm.Effect) {
	if l != nil {
		l.begun[e.Nonce] = max(l.begun[e.Nonce], e.Attempt)
		delete(l.gone, e.Nonce)
	}
}

func (l *losses) stopped(e fsm.Effect) {
	if l != nil {
		l.over[e.Worker] = true
	}
}

func (l *losses) asked(e fsm.Effect) {
	if l != nil {
		l.question[e.Nonce] = e.About()
		delete(l.half, e.Nonce)
	}
}

func (l *losses) shown(p *pull) {
	if l == nil {
		return
	}
	for _, c := range p.changes {
		l.followed[p.number] = max(l.followed[p.number], c.ID)
	}
}

// runWithLosses runs a world that twice loses all or part of its journal.
func (w *world) runWithLosses(seed uint64, steps int) {
	w.hub.losses = newLosses(seed)
	for range 2 {
		w.run(w.steps + 50 + w.hub.losses.choices.pick(atShape, steps/2))
		w.lose()
	}
	w.run(steps)
	w.settle()
}

// lose removes the journal, its tail, or everything after the snapshot. The next director notices, because a copy of
// the journal's head survives elsewhere, and rebuilds the journal.
func (w *world) lose() {
	if w.bad != nil {
		return
	}
	l, d := w.hub.losses, w.directors
	l.happened++
	for _, i := range w.hub.issues { // interrupt some claims after they set their label
		if t := d.lead.m.Task(i.key); t != nil && t.State == fsm.Claiming && i.offered() && i.nonce == "" &&
			l.choices.pick(atHuman, 4) > 0 {
			w.hub.relabel(i, i.labels|claimedLabel, "")
		}
	}
	w.halfAsk()
	w.takeBack()
	for _, p := range []*process{d.stale, d.lead} {
		if p != nil {
			d.end(p, "the journal is lost")
		}
	}
	w.loseMore()
	known, err := w.cutJournal()
	if err == nil {
		w.operator.requests = nil // senders have stopped repeating their requests by the end of a rebuild
		w.tell("the journal is lost; %d tasks are known from %d batches", len(known.Tasks()), len(d.journal.batches))
		err = w.rebuild(known)
	}
	if err != nil {
		w.fail(foundAgain, "%v", err)
		return
	}
	d.boot()
}

// cutJournal removes all of the journal, everything after the snapshot, or a tail. It returns a machine with the state
// from the remaining records.
func (w *world) cutJournal() (*fsm.Machine, error) {
	l, journal := w.hub.losses, &w.directors.journal
	known := fsm.New(w.directors.set.cfg)
	switch l.choices.pick(atShape, 3) {
	case 0:
		return known, nil
	case 1:
		journal.batches = nil
	case 2:
		journal.batches = journal.batches[:l.choices.pick(atShape, len(journal.batches)+1)]
	}
	return known, journal.load(known)
}

// rebuild writes a new journal from the surviving data, and checks that it agrees with all visible data. If it is
// interrupted, it starts again.
func (w *world) rebuild(known *fsm.Machine) error {
	d, found := w.directors, w.found(known)
	before := d.history
	d.history = newHistory(w)
	d.history.moves, d.history.record, d.history.taken = before.moves, before.record, before.taken
	d.history.rows = lossRules()
	parts := fsm.Rebuild("lost", known, found, nil, "lost")
	for _, some := range [][]fsm.Rebuilt{parts[:w.hub.losses.choices.pick(atShape, len(parts)+1)], parts} {
		if err := w.writeRebuilt(known, some); err != nil {
			return err
		}
		if len(some) > 0 && !d.journal.rebuild().Unfinished() {
			break
		}
	}
	m := fsm.New(d.set.cfg)
	if err := d.journal.load(m); err != nil {
		return err
	}
	for _, b := range d.journal.batches {
		d.history.appended(d.lead, b.records)
	}
	for _, f := range found {
		if text := w.foundAgain(known, m, f); text != "" {
			w.fail(foundAgain, "%s", text)
		}
	}
	return nil
}

// halfAsk interrupts some questions between posting the comment and setting the label.
func (w *world) halfAsk() {
	for _, i := range w.hub.issues {
		e, ok := w.underWay(i, fsm.DoEscalate)
		if !ok || i.asked == e.ID || i.labels&blockedLabel != 0 || w.hub.losses.choices.pick(atHuman, 3) == 0 {
			continue
		}
		w.tell("    world: %s, without its label", e.ID)
		w.hub.losses.asked(e)
		w.hub.losses.half[e.Nonce] = e.ID
		w.land(e)
	}
}

// takeBack interrupts some claims that resume an issue after an answer: the claim has sent its last request when a
// person removes the claimed label.
func (w *world) takeBack() {
	for _, i := range w.hub.issues {
		e, ok := w.underWay(i, fsm.DoClaim)
		if !ok || e.Attempt == 0 || w.hub.losses.choices.pick(atHuman, 3) == 0 || !w.hub.claim(i, e).Ours {
			continue
		}
		w.tell("    world: %s, and a person removes the claimed label", e.ID)
		w.hub.relabel(i, i.labels&^claimedLabel, i.nonce)
		w.land(e)
	}
}

// underWay returns the next effect of an issue's task if it is of the given kind and has started.
func (w *world) underWay(i *issue, kind fsm.EffectKind) (e fsm.Effect, ok bool) {
	t := w.directors.lead.m.Task(i.key)
	if t == nil || len(t.Outbox) == 0 || t.Nonce != i.nonce {
		return e, false
	}
	e, ok = t.Outbox[0].Effect, t.Outbox[0].Tries > 0
	for _, f := range w.directors.lead.flight {
		ok = ok || f.effect.ID == e.ID
	}
	return e, ok && e.Kind == kind
}

// land removes an effect from the running effects.
func (w *world) land(e fsm.Effect) {
	w.directors.lead.flight = slices.DeleteFunc(w.directors.lead.flight,
		func(f *flight) bool { return f.effect.ID == e.ID })
}

// loseMore removes data outside the journal as well: stored reports, unused checkouts, or both.
func (w *world) loseMore() {
	l := w.hub.losses
	what := l.choices.pick(atShape, 6)
	if what == 0 || what == 2 {
		w.loseReports()
	}
	if what == 1 || what == 2 {
		w.loseCheckouts()
	}
}

func (w *world) loseReports() {
	l := w.hub.losses
	w.tell("the reports are lost")
	for _, r := range w.workers.reports {
		r.acked = true // it is not delivered again
		l.well[r.worker] = l.well[r.worker] || r.body.OK && r.body.Final
	}
	w.workers.reports = nil
	for a := range l.over { // an attempt without a checkout has left nothing behind, so its number can be reused
		if nonce, n, _ := fsm.ParseAttemptID(a); n > l.begun[nonce] {
			delete(l.over, a)
		}
	}
}

func (w *world) loseCheckouts() {
	w.tell("checkouts are lost")
	for _, i := range w.hub.issues {
		used := slices.ContainsFunc(w.runtime.containers,
			func(b *container) bool { return b.issue == i.key && b.listed })
		if used || w.hub.losses.choices.pick(atHuman, 2) != 0 {
			continue
		}
		w.hub.losses.gone[i.nonce] = true
		for a := range w.workers.spools {
			if nonce, _, _ := fsm.ParseAttemptID(a); nonce == i.nonce {
				delete(w.workers.spools, a)
			}
		}
	}
}

// writeRebuilt starts a new journal with some parts of a rebuild, each in a separate batch.
func (w *world) writeRebuilt(known *fsm.Machine, parts []fsm.Rebuilt) error {
	w.directors.journal = journal{}
	w.directors.born++
	d := fsm.NewDriver(fsm.New(w.directors.set.cfg), 0, fmt.Sprintf("p%d", w.directors.born))
	if !w.directors.withData {
		omitData(d)
	}
	for _, e := range parts {
		at := latest(w.wall(w.directors.lead), known.Now())
		if err := d.Offer(fsm.Event{At: at, Body: e}, 0); err != nil {
			return err
		}
		if r := d.Ready(); r.Batch != nil {
			seq, err := w.directors.journal.append(r.Batch)
			if err != nil {
				return err
			}
			d.Appended(seq)
		}
	}
	return nil
}

// rebuild returns the written part of a rebuild.
func (j *journal) rebuild() (w fsm.RebuildWritten) {
	for _, b := range j.batches {
		w = fsm.LastRebuild(w, b.records)
	}
	return w
}

// found returns the data outside the journal.
func (w *world) found(known *fsm.Machine) (all []fsm.FoundTask) {
	l := w.hub.losses
	for _, i := range w.hub.issues {
		f := fsm.FoundTask{Key: i.key, Title: "widget", Labels: labelSets[i.labels]}
		if i.nonce == foreign || i.nonce == "" {
			if t := known.Task(i.key); t != nil {
				f.Attempt = w.shownAttempt(t.Nonce)
			}
			all = append(all, f)
			continue
		}
		f.Nonce, f.Attempt, f.Question, f.Landed = i.nonce, w.shownAttempt(i.nonce), l.question[i.nonce],
			l.half[i.nonce] == ""
		if l.gone[i.nonce] {
			f.Branch = l.begun[i.nonce]
		}
		f.Answered = f.Question != "" && f.Landed && i.asked == "" // the issue was claimed after the question
		f.Checkout = l.begun[i.nonce] > 0 && !l.gone[i.nonce]
		for _, b := range w.runtime.containers {
			if nonce, n, _ := fsm.ParseAttemptID(b.attempt); nonce == i.nonce && b.listed && (b.running || b.pending) {
				f.Live = max(f.Live, n)
			}
		}
		f.Reported = slices.ContainsFunc(w.workers.reports, func(r *report) bool {
			return r.worker == fsm.AttemptID(f.Nonce, f.Attempt) && r.body.Final
		})
		if x := i.pull; x != nil && x.nonce == i.nonce {
			f.Work = fsm.DeliverResult{Branch: "retake/" + i.nonce, SHA: i.delivered, PullRequest: x.number}
			f.Reviewed.Change = l.followed[x.number]
		}
		all = append(all, f)
	}
	return all
}

// shownAttempt returns a claim's last attempt with a surviving checkout or report, or 0.
func (w *world) shownAttempt(nonce string) int {
	last := w.hub.losses.begun[nonce]
	if w.hub.losses.gone[nonce] {
		last = 0
	}
	for _, r := range w.workers.reports {
		if of, n, _ := fsm.ParseAttemptID(r.worker); of == nonce {
			last = max(last, n)
		}
	}
	return last
}

// foundAgain describes how a rebuilt task contradicts its issue, or returns "".
func (w *world) foundAgain(known, m *fsm.Machine, f fsm.FoundTask) string {
	i, t, l := w.hub.issue(f.Key), m.Task(f.Key), w.hub.losses
	asked, _, _ := strings.Cut(strings.TrimPrefix(f.Question, f.Nonce+"-"), ".")
	plans := func(k fsm.EffectKind) bool {
		return t != nil && slices.ContainsFunc(t.Outbox, func(p fsm.Planned) bool { return p.Effect.Kind == k })
	}
	planned := func(id string) bool {
		return slices.ContainsFunc(t.Outbox, func(p fsm.Planned) bool { return p.Effect.ID == id })
	}
	switch {
	case f.Nonce == "":
		return ""
	case t == nil:
		return fmt.Sprintf("claim %s of %s is missing after the rebuild", f.Nonce, f.Key)
	case t.Nonce != f.Nonce:
		return fmt.Sprintf("%s is claimed as %s, but was rebuilt as %s", f.Key, f.Nonce, t.Nonce)
	case t.Attempt < f.Attempt:
		return fmt.Sprintf("%s has reached attempt %d, but continues from %d", f.Key, f.Attempt, t.Attempt)
	case plans(fsm.DoStart) && l.over[t.AttemptID()]:
		return fmt.Sprintf("%s would be started again", t.AttemptID())
	case !f.Landed && asked == fmt.Sprint(f.Attempt) && t.Answers <= answers(l.half[f.Nonce]) &&
		!t.State.Info().Final && !planned(l.half[f.Nonce]):
		return fmt.Sprintf("the label for question %s is missing, but the task was rebuilt as %s", l.half[f.Nonce],
			t.State)
	case i.labels == reviewLabel && f.Work.PullRequest > 0 && t.State != fsm.InReview && t.State != fsm.Delivering &&
		!t.State.Info().Final && !planned(l.half[f.Nonce]):
		// the director first completes an interrupted question
		return fmt.Sprintf("%s is in review, but was rebuilt as %s", f.Key, t.State)
	case i.labels == blockedLabel && asked == fmt.Sprint(f.Attempt) && i.asked != "" && plans(fsm.DoEscalate) &&
		known.Task(f.Key) == nil:
		return fmt.Sprintf("%s is open, but %s gets another question", i.asked, f.Key)
	case t.State == fsm.Blocked && f.Answered && len(t.Outbox) == 0:
		return fmt.Sprintf("%s was answered, but %s was rebuilt as waiting for an answer", f.Question, f.Key)
	case t.State == fsm.Blocked && i.asked != "" && t.Answers != answers(i.asked) && len(t.Outbox) == 0:
		return fmt.Sprintf("%s waits for an answer to %s, but was rebuilt with %d answers", f.Key, i.asked, t.Answers)
	case i.labels == blockedLabel && asked == fmt.Sprint(f.Attempt) && i.asked != "" && t.State != fsm.Blocked &&
		!t.State.Info().Final && t.State != fsm.Backoff && t.State != fsm.Parked:
		return fmt.Sprintf("%s is blocked, but was rebuilt as %s", f.Key, t.State)
	case f.Live > 0 && f.Live == f.Attempt && !w.runtime.container(fsm.AttemptID(f.Nonce, f.Live)).revoked &&
		!t.State.Info().Live && !t.State.Info().Final:
		return fmt.Sprintf("%s is running, but %s was rebuilt as %s", fsm.AttemptID(f.Nonce, f.Live), f.Key, t.State)
	}
	return ""
}

func questionOnce(h *history, p *process, e fsm.Effect) string {
	if e.Kind != fsm.DoEscalate || p != h.w.directors.lead {
		return ""
	}
	i := h.w.hub.issue(e.Task)
	for _, open := range []string{i.asked, h.w.hub.losses.half[e.Nonce]} {
		if i.nonce == e.Nonce && open != "" && open != e.ID && answers(open) >= e.Answers {
			return fmt.Sprintf("question %s is asked on %s while %s is open", e.ID, i.key, open)
		}
	}
	return ""
}
