package fsm

import (
	"slices"
	"strings"
	"time"
)

// recorder collects the facts and effects of the current step. It applies each recorded fact to the memory immediately.
type recorder struct {
	agenda

	unknownWorkers unknownWorkers
	facts          []Fact
	effects        []Effect
}

// record applies a fact and collects it for the journal.
func (m *recorder) record(f Fact) {
	m.facts = append(m.facts, f)
	m.apply(m.now, f)
}

// move makes a transition from the table. It does nothing if the table has no row for the state and trigger.
func (m *recorder) move(t *Task, on Trigger, why string, until time.Time) {
	to, ok := t.State.After(on)
	if !ok {
		return
	}
	m.record(Moved{
		OfTask: OfTask{t.Key}, Attempt: t.Attempt, From: t.State, To: to, On: on, Why: why, Until: until,
		Turn: t.State == Queued && to == Claiming,
	})
	if !t.holdsSlot() { // a task in Backoff may keep its slot while its issue is being reread
		m.slotReleased(t, func(i *Incident) bool { return t.provesWell(on, i) })
	}
	m.revisit(t)
	// Before the claim is won, the task has no comment. Done and Released have separate comments. The other states are
	// too short-lived to show. After OnSeenAgain the comment still shows Running.
	if on != OnSeenAgain {
		t.soft.commentDue, t.soft.commentWhy = to == Running || to == Backoff || to == Parked || to == Blocked, why
		t.soft.kept = keptEdit{}
	}
}

// plan puts a durable effect into the task's outbox, unless it is already there.
func (m *recorder) plan(t *Task, e Effect) {
	e.Task, e.Nonce, e.Attempt, e.Worker = t.Key, t.Nonce, t.Attempt, t.AttemptID()
	e.Answers, e.At = t.Answers, m.now
	e.ID = effectID(e.Kind, e.Worker, e.Answers)
	if t.Work.Branch != "" {
		e.Work = new(t.Work)
	}
	e.Contract = t.Contract
	if !slices.ContainsFunc(t.Outbox, func(p Planned) bool { return p.Effect.ID == e.ID }) {
		m.record(EffectPlanned{Effect: e})
		m.revisit(t)
	}
}

// emit returns a soft effect to the shell.
func (m *recorder) emit(t *Task, e Effect) {
	if t != nil {
		e.Task, e.Nonce, e.Attempt = t.Key, t.Nonce, t.Attempt
		if e.Worker == "" {
			e.Worker = t.AttemptID()
		}
	}
	e.ID = string(e.Kind) + "/" + string(e.Task) + e.Worker
	m.effects = append(m.effects, e)
}

// setPhase records a change of phase.
func (m *recorder) setPhase(to Phase, why string) {
	if m.hard.Phase != to {
		m.record(PhaseChanged{From: m.hard.Phase, To: to, Why: why})
		m.dispatchableSince = m.now
		m.revisitAll() // the phase determines which deadlines apply
	}
}

// overtake removes effects from the outbox that have become pointless, unless this process has emitted them. If an
// earlier process has carried out some of them, the stop or release that the caller plans next undoes those.
func (m *recorder) overtake(t *Task, why string) {
	for _, p := range slices.Clone(t.Outbox) {
		if p.Effect.ID != t.soft.inFlight && slices.Contains(overtakenEffects, p.Effect.Kind) {
			m.record(EffectDone{OfTask: OfTask{t.Key}, Effect: p.Effect.ID, Failed: "overtaken: " + why})
		}
	}
}

// revisit reindexes the task and marks it dirty, so that the end of the step checks which of its effects to emit.
func (m *agenda) revisit(t *Task) {
	m.index(t)
	m.dirty = append(m.dirty, t)
}

func (m *agenda) revisitAll() {
	for _, t := range m.hard.Tasks {
		m.revisit(t)
	}
}

// githubBlocked reports whether a kind of effect has to wait for GitHub.
func (m *memory) githubBlocked(k EffectKind) bool {
	return slices.Contains(githubEffects, k) && m.githubOpensAt().After(m.now)
}

// emitFor emits the edit of a task's comment if one is due, and the first effect of the outbox. At most one durable
// effect of a task is in flight, so the next one must wait for its outcome. During shutdown, emitFor does nothing,
// because the next process takes over.
func (m *recorder) emitFor(t *Task) {
	if m.hard.Phase == PhaseShutdown {
		return
	}
	// The comment links to the question, so the question comes first.
	if t.soft.commentDue && !m.githubBlocked(DoProgress) && !t.plans(DoEscalate) {
		t.soft.commentDue = false
		m.emit(t, Effect{Kind: DoProgress, Progress: &ProgressView{
			State: t.shown(), Attempt: t.Attempt, At: t.Since, History: t.History, Why: t.soft.commentWhy,
			Incident: m.incidentIssue(t),
			Until:    t.Until, Validates: t.validates(), Review: t.inReview(), Commanded: t.Commanded,
		}})
		if k := &t.soft.kept; k.delivery != "" { // edited recognizes the edit by this id
			edit := &m.effects[len(m.effects)-1]
			edit.ID += "/" + k.delivery
			k.edit = edit.ID
		}
	}
	if len(t.Outbox) == 0 || t.soft.inFlight != "" {
		return
	}
	p := t.Outbox[0]
	if p.NotBefore.After(m.now) || m.githubBlocked(p.Effect.Kind) {
		return
	}
	t.soft.inFlight = p.Effect.ID
	m.effects = append(m.effects, t.withTopic(p.Effect))
	m.index(t)
}

// A worker without an attempt may send messages for days, for example on a lost node. The director answers its first
// message, repeats the answer after a minute, and then less and less often. It remembers at most maxUnknownWorkers of
// these workers.
const (
	fenceEvery        = time.Minute
	fenceSeldom       = 10 * time.Minute
	maxUnknownWorkers = 1024
)

// Prefixes of names in unknownWorkers: unknown containers, and the senders of reports.
const (
	containerOf = "container "
	reportOf    = "report of "
)

// People may send reports for workers without an attempt, and expect an answer to each report. The director answers
// unheardAtOnce reports, and then one every unheardEvery. Further reports get no answer.
const (
	unheardAtOnce = 100
	unheardEvery  = 10 * time.Second
)

// unknownWorkers limits the answers to workers without an attempt, per worker and in total.
type unknownWorkers struct {
	places  []answeredWorker // at most maxUnknownWorkers
	placeOf map[string]int
	roomAt  time.Time // earliest time at which a new worker may replace another
	last    string    // last answered worker

	unheardUntil time.Time // time up to which the budget for answers to people's reports is used up
}

type answeredWorker struct {
	worker string
	at     time.Time
	wait   time.Duration // minimum time until the next answer
}

func (a *answeredWorker) dueAt() time.Time { return a.at.Add(a.wait) }

// answer reports whether to answer a worker now. If the list is full, a new worker replaces the worker that is due
// first. If no worker is due, the new worker is not answered, and will ask again.
func (u *unknownWorkers) answer(worker string, now time.Time) bool {
	i, known := u.placeOf[worker]
	wait := time.Duration(0)
	switch {
	case known && now.Before(u.places[i].dueAt()):
		return false
	case known:
		wait = u.places[i].wait
	case len(u.places) < maxUnknownWorkers:
		i, u.places = len(u.places), append(u.places, answeredWorker{})
	case now.Before(u.roomAt):
		return false
	default:
		i = u.firstDue()
		if u.roomAt = u.places[i].dueAt(); now.Before(u.roomAt) {
			return false
		}
		wait = u.places[i].wait // while the list is full, answers become less and less frequent
		delete(u.placeOf, u.places[i].worker)
	}
	if u.placeOf == nil {
		u.placeOf = map[string]int{}
	}
	u.placeOf[worker], u.places[i] = i, answeredWorker{worker, now, min(wait+fenceEvery, fenceSeldom)}
	u.last = worker
	return true
}

// inTurn returns unknown containers in the order in which they may be answered. If there are more containers than
// entries, it begins after the last answered container. Otherwise the first containers would keep all entries.
func (u *unknownWorkers) inTurn(containers []string) []string {
	if len(containers) <= maxUnknownWorkers {
		return containers
	}
	slices.Sort(containers)
	next, _ := slices.BinarySearch(containers, strings.TrimPrefix(u.last, containerOf)+"\x00")
	return slices.Concat(containers[next:], containers[:next])
}

// unheard reports whether to answer one more report from a person now.
func (u *unknownWorkers) unheard(now time.Time) bool {
	from := later(u.unheardUntil, now)
	if from.Sub(now) > (unheardAtOnce-1)*unheardEvery {
		return false
	}
	u.unheardUntil = from.Add(unheardEvery)
	return true
}

func (u *unknownWorkers) firstDue() (first int) {
	for i := range u.places {
		if u.places[i].dueAt().Before(u.places[first].dueAt()) {
			first = i
		}
	}
	return first
}

// unknownWorker reports whether to answer a worker without an attempt now and, if so, records the answer.
func (m *recorder) unknownWorker(worker string) bool {
	answer := m.unknownWorkers.answer(worker, m.now)
	if answer {
		m.record(WorkerAnswered{Worker: worker})
	}
	return answer
}

// fenceUnknown tells a worker without an attempt to exit, unless the director answered the worker recently.
func (m *recorder) fenceUnknown(worker string, token uint64) {
	if m.unknownWorker(worker) {
		m.emit(nil, Effect{Kind: DoFence, Worker: worker, Token: token})
	}
}

// fence tells a worker to exit because its attempt is over or unknown. The recorded fact delays the message until the
// append succeeds, so a director unaware that it was replaced cannot fence its successor's worker.
func (m *recorder) fence(b ReportReceived) {
	e := Effect{Kind: DoFence, Worker: b.Worker}
	var answer bool
	if b.Report.Persons {
		e.Unheard, answer = b.Report.Ref.Seq, m.unknownWorkers.unheard(m.now)
	} else {
		answer = m.unknownWorkers.answer(reportOf+b.Worker, m.now)
	}
	if answer {
		m.record(WorkerAnswered{Worker: b.Worker})
		m.emit(nil, e)
	}
}
