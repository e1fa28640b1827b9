package fsm

import (
	"cmp"
	"slices"
	"time"

	"retake/internal/recovery"
)

// outageWait is the maximum wait before another request to an unreachable server. It is short, because the waiting task
// holds a slot or has work to deliver.
const outageWait = time.Minute

// startFor limits how long an attempt's start waits for an unreachable server. After that, the attempt fails.
const startFor = 10 * time.Minute

// notifyAfter is the number of failed deliveries after which the comment on the issue mentions them.
const notifyAfter = 3

// releaseTries is the number of permanent refusals after which the machine gives up on a release. The claim's labels
// then stay on the issue.
const releaseTries = 10

// minRetryWait is the minimum wait before a retry. It matters because jitter may be 0, and a stated reset may be in the
// past.
const minRetryWait = 100 * time.Millisecond

// At most one durable effect of a task is in flight. The outcome of any other effect is outdated, so ignore it.
func (e EffectEnded) step(m *Machine) {
	m.replied(e.Effect)
	t := m.Task(e.Task)
	t.edited(e)
	if t == nil || len(t.Outbox) == 0 || t.Outbox[0].Effect.ID != e.Effect || t.soft.inFlight != e.Effect {
		return
	}
	p := t.Outbox[0]
	t.soft.inFlight = ""
	m.revisit(t)
	// Without FenceAt the attempt may still change the director's checkout, so it must not be fenced.
	if e.Stop != nil && e.Stop.Fenced && p.Effect.Stop.FenceAt.IsZero() {
		e.Stop, e.Failure = nil, &EffectError{Reason: recovery.WorkerLost, Text: e.Stop.Words, Transient: true}
	}
	if e.Failure != nil && m.tryAgain(t, p, e.Failure) {
		m.deferEffect(t, p, e.Failure)
		return
	}
	done := EffectDone{OfTask: OfTask{t.Key}, Effect: e.Effect}
	if e.Failure != nil {
		done.Failed, done.Reason = e.Failure.Text, e.Failure.Reason
	} else if p.Effect.Kind == DoEscalate {
		done.Asked = e.Asked
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
		m.noteAttemptContract(t, e)
		m.started(t, p.Effect.Start, e.Failure)
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

// tryAgain reports whether a failed effect stays in the outbox. An effect is given up if a later effect in the outbox
// makes it pointless. To limit the number of starts, a failed start becomes a failed attempt unless a server was
// unreachable. Stops and questions are retried without limit, because the director must confirm a container's end and
// must reach a human.
func (m *attempts) tryAgain(t *Task, p Planned, f *EffectError) bool {
	switch k := p.Effect.Kind; {
	case len(t.Outbox) > 1 && slices.Contains(overtakenEffects, k), k == DoRemind && t.State != Blocked:
		// A person has answered the question.
		return false
	case f.Until.After(m.now), !f.Until.IsZero() && k != DoDeliver:
		// Wait for the reset. If the reset is in the past, retry without limit unless this is a delivery.
		return true
	case f.Doubtful && m.patient(p, f):
		return true
	case k == DoStart:
		return f.isOutage() && m.patient(p, f)
	case k == DoStop, k == DoEscalate && t.State == Blocked, k == DoRelease && p.Refused < releaseTries:
		return true
	}
	return f.Transient && m.patient(p, f)
}

// patience limits the retries after consecutive failures of one kind. The first matching row applies. Retries are
// unlimited if no row matches or the row's limit is 0.
var patience = []struct {
	row  string     // in the journal; never changes
	kind EffectKind // empty means any kind
	fits func(f *EffectError) bool
	most func(c *Config) time.Duration
}{
	{"doubtful", "", func(f *EffectError) bool { return f.Doubtful }, func(*Config) time.Duration { return doubtFor }},
	{"start", DoStart, nil, func(*Config) time.Duration { return startFor }},
	{ // a longer limit, because asking a person also needs GitHub
		"delivery_github", DoDeliver, func(f *EffectError) bool { return f.Resource == recovery.GitHubAPI },
		func(c *Config) time.Duration { return 4 * c.DeliverFor },
	},
	{"delivery", DoDeliver, nil, func(c *Config) time.Duration { return c.DeliverFor }},
}

// doubtFor is the time for which a failure must persist before it counts, if a single wrong answer could explain it.
const doubtFor = 2 * time.Minute

// patienceRow returns the name and limit of the first row that matches the effect's kind and failure, or "". longest is
// the longest limit for the kind, or 0.
func (m *attempts) patienceRow(k EffectKind, f *EffectError) (row string, most, longest time.Duration) {
	for _, r := range patience {
		if r.kind == k {
			longest = max(longest, r.most(&m.cfg))
		}
		if row == "" && (r.kind == k || r.kind == "") && (r.fits == nil || r.fits(f)) {
			row, most = r.row, r.most(&m.cfg)
		}
	}
	return row, most, longest
}

// patient reports whether to retry an effect that keeps failing. It returns false once the effect has failed several
// times and the time limit of the matching row of patience has passed. The time restarts when a failure matches another
// row, but the machine gives up on an effect that alternates between rows shortly after the longest limit. Waits for a
// stated reset do not count.
func (m *attempts) patient(p Planned, f *EffectError) bool {
	const often = 3
	row, most, longest := m.patienceRow(p.Effect.Kind, f)
	switch now := p.Failing; {
	case p.Since.IsZero() || most == 0:
		return true
	case longest > 0 && p.Tries >= often && m.now.Sub(p.Since) >= longest+doubtFor:
		return false
	default:
		return now.Row != row || now.Since.IsZero() || now.Times < often || m.now.Sub(now.Since) < most
	}
}

// failingNow returns the effect's record of failures including this failure.
func (m *attempts) failingNow(p Planned, f *EffectError) (now Failing) {
	row, _, _ := m.patienceRow(p.Effect.Kind, f)
	switch now = p.Failing; {
	case row == "":
		return Failing{}
	case now.Row != row:
		now = Failing{Row: row}
	}
	now.Times++
	if now.Since.IsZero() {
		now.Since = m.now
	}
	return now
}

// deferEffect schedules the retry of a failed effect. A wait for a stated reset does not count as a failure.
func (m *attempts) deferEffect(t *Task, p Planned, f *EffectError) {
	d := EffectDeferred{
		OfTask: OfTask{t.Key}, Effect: p.Effect.ID, Tries: p.Tries, Until: f.Until.Round(0).UTC(),
		Why: f.Text, Refused: p.Refused, Failing: p.Failing, Reason: f.Reason,
	}
	d.Failing.Since = time.Time{}
	if !f.Transient {
		d.Refused++
	}
	// Without a stated reset, back off. Also back off after a reset in the past, because it means that the clocks
	// differ, so an immediate retry would not help.
	if !f.Until.After(m.now) {
		d.Tries++
		d.Since, d.Failing = p.Since, m.failingNow(p, f)
		if d.Since.IsZero() {
			d.Since = m.now
		}
		wait := m.cfg.Retry.Delay(d.Tries, p.Effect.ID)
		if f.isOutage() {
			wait = min(wait, outageWait)
		}
		d.Until = m.now.Add(wait)
		if o := p.Effect.Stop; o != nil && o.FenceAt.After(m.now) {
			d.Until = sooner(d.Until, o.FenceAt)
		}
	} else if resource := f.limited(); resource != "" {
		m.coolDown(Cooldown{Resource: resource, Until: f.Until, Why: f.Text})
	}
	// Without an edit, the comment would still show a running worker.
	if p.Effect.Kind == DoDeliver && d.Tries >= notifyAfter {
		t.planKeptEdit(p.Effect.ID, f.Text)
	}
	d.Until = later(d.Until, m.now.Add(minRetryWait))
	m.record(d)
}

// limited returns the GitHub resource closed by a limit with a stated reset, or "" for other resources.
func (f *EffectError) limited() string {
	switch f.Resource {
	case recovery.GitHubAPI:
		return cmp.Or(f.Closed, GitHubWrite)
	case recovery.GitHubGit:
		return f.Resource
	}
	return ""
}

// planKeptEdit plans the comment edit that tells people that the work is kept, unless this process has already made it.
func (t *Task) planKeptEdit(delivery, why string) {
	if t.soft.kept.delivery != delivery {
		t.soft.kept = keptEdit{delivery: delivery}
	}
	if !t.soft.kept.made {
		t.soft.commentDue = true
		t.soft.commentWhy = "The work is done and kept, but it cannot be delivered yet: " + why
	}
}

// edited handles the outcome of a comment edit.
func (t *Task) edited(e EffectEnded) {
	if t != nil && t.soft.kept.edit == e.Effect && (e.Failure == nil || !e.Failure.Transient) {
		t.soft.kept.made = true
	}
}

// isOutage reports whether a server did not answer or had an internal failure. The task did not cause the failure, and
// a retry may succeed.
func (f *EffectError) isOutage() bool {
	return f.Transient && f.Reason == recovery.NetworkTransient &&
		(f.Resource == recovery.GitHubAPI || f.Resource == recovery.GitHubGit)
}
