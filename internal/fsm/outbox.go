package fsm

import (
	"slices"
	"time"

	"retake/internal/recovery"
)

// After so many failures in a row of one effect GitHub is taken to be down, and is left alone for so long.
const (
	githubDownAfter = 3
	githubDownFor   = time.Minute
)

// releaseTries is how often a release is tried that GitHub permanently refuses; then the claim's labels stay as they are.
const releaseTries = 10

// minRetryWait is the least wait before a failed effect is tried again: jitter may draw 0, and a stated reset may be past.
const minRetryWait = 100 * time.Millisecond

// An outcome of any other effect than the one under way is old.
func (e EffectEnded) step(m *Machine) {
	t := m.Task(e.Task)
	if t == nil || len(t.Outbox) == 0 || t.Outbox[0].Effect.ID != e.Effect || t.soft.inFlight != e.Effect {
		return
	}
	p := t.Outbox[0]
	t.soft.inFlight = ""
	m.revisit(t)
	if e.Failure != nil && t.tryAgain(p, e.Failure) {
		m.deferEffect(t, p, e.Failure)
		return
	}
	done := EffectDone{OfTask: OfTask{t.Key}, Effect: e.Effect}
	if e.Failure != nil {
		done.Failed = e.Failure.Text
	}
	switch {
	case e.delivered() && p.Effect.Kind == DoDeliver:
		m.record(WorkDelivered{Task: t.Key, Delivery: *e.Delivery})
	case e.delivered():
		m.record(WorkPushed{OfTask: OfTask{t.Key}, Work: *e.Delivery})
	}
	m.record(done)
	switch p.Effect.Kind {
	case DoClaim, DoRecheck:
		m.claimChecked(t, p, e)
	case DoStart:
		m.started(t, e.Failure)
	case DoStop:
		m.stopped(t, e.Stop)
	case DoDeliver:
		m.deliveryEnded(t, e)
	case DoEscalate:
		if e.Failure == nil {
			m.record(LabelsConfirmed{OfTask{t.Key}})
		}
	case DoRelease:
		m.emit(t, Effect{Kind: DoForget})
	}
}

// tryAgain reports whether a failed effect stays in the outbox. It is given up if the effects that wait behind it make it
// pointless. A failed start becomes a failed attempt, so that it is bounded; a container must be confirmed gone, and
// a human must be asked, however long that takes.
func (t *Task) tryAgain(p Planned, f *EffectError) bool {
	switch k := p.Effect.Kind; {
	case len(t.Outbox) > 1 && slices.Contains(overtakenEffects, k), k == DoRemind && t.State != Blocked: // it was answered meanwhile
		return false
	case !f.Until.IsZero():
		return true
	case k == DoStart:
		return false
	case k == DoStop, k == DoEscalate && t.State == Blocked, k == DoRelease && p.Tries < releaseTries:
		return true
	}
	return f.Transient
}

// deferEffect keeps a failed effect for later. A wait for a stated reset is not counted as a failure.
func (m *Machine) deferEffect(t *Task, p Planned, f *EffectError) {
	d := EffectDeferred{OfTask: OfTask{t.Key}, Effect: p.Effect.ID, Tries: p.Tries, Until: f.Until.Round(0).UTC(), Why: f.Text}
	if !f.Until.After(m.now) { // none, or one that is past: our clock and theirs differ, and asking at once would not help
		d.Tries++
		d.Until = m.now.Add(m.cfg.Retry.Delay(d.Tries, p.Effect.ID))
		if f.Resource == recovery.GitHubAPI && f.Transient && d.Tries%githubDownAfter == 0 {
			m.coolDown(Cooldown{Resource: GitHubRead, Until: m.now.Add(githubDownFor), Why: "GitHub fails repeatedly: " + f.Text})
		}
	} else if f.Resource == recovery.GitHubAPI {
		m.coolDown(Cooldown{Resource: GitHubWrite, Until: f.Until, Why: f.Text})
	}
	d.Until = later(d.Until, m.now.Add(minRetryWait))
	m.record(d)
}

// overtake takes out of the outbox what is pointless now and was not emitted by this process. What an earlier process
// may have done of it is undone by the effect that is planned next: a stop, or a release.
func (m *Machine) overtake(t *Task, why string) {
	for _, p := range slices.Clone(t.Outbox) {
		if p.Effect.ID != t.soft.inFlight && slices.Contains(overtakenEffects, p.Effect.Kind) {
			m.record(EffectDone{OfTask: OfTask{t.Key}, Effect: p.Effect.ID, Failed: "overtaken: " + why})
		}
	}
}

// revisit makes the step look for something that the task can emit.
func (m *Machine) revisit(t *Task) {
	m.index(t)
	m.dirty = append(m.dirty, t)
}

func (m *Machine) revisitAll() {
	for _, t := range m.hard.Tasks {
		m.revisit(t)
	}
}

// githubBlocked reports whether a kind of effect has to wait for GitHub.
func (m *Machine) githubBlocked(k EffectKind) bool {
	return slices.Contains(githubEffects, k) && m.githubOpensAt().After(m.now)
}

// emitFor emits a task's comment, if it has changed, and the first planned effect, if nothing keeps them back.
func (m *Machine) emitFor(t *Task) {
	if m.hard.Phase == PhaseShutdown {
		return
	}
	if t.soft.commentDue && !m.githubBlocked(DoProgress) && !t.plans(DoEscalate) { // the comment points to the question: that comes first
		t.soft.commentDue = false
		m.emit(t, Effect{Kind: DoProgress, Progress: &ProgressView{
			State: t.State, Attempt: t.Attempt, At: t.Since, History: t.History, Why: t.soft.commentWhy, Incident: m.incidentIssue(t),
			Until: t.Until, Validates: t.validates(),
		}})
	}
	if len(t.Outbox) == 0 || t.soft.inFlight != "" {
		return
	}
	p := t.Outbox[0]
	if p.NotBefore.After(m.now) || m.githubBlocked(p.Effect.Kind) {
		return
	}
	t.soft.inFlight = p.Effect.ID
	m.effects = append(m.effects, p.Effect)
	m.index(t)
}
