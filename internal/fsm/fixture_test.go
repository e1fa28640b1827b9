package fsm

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"retake/internal/recovery"
	"retake/internal/recovery/policy"
)

var update = flag.Bool("update", false, "rewrite the golden files and the generated parts of the specification")

// epoch is the start of every test.
var epoch = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

// testBackoff is the default backoff without jitter, so that waits are predictable.
func testBackoff() recovery.Backoff {
	b := recovery.DefaultBackoff
	b.Jitter = recovery.NoJitter
	return b
}

func testConfig() Config {
	b := testBackoff()
	return Config{
		MaxWorkers: 3, HeartbeatTTL: 90 * time.Second, Watchdog: time.Hour, StartTimeout: time.Minute,
		StopGrace: 10 * time.Second, FenceAfter: time.Minute, ClaimStale: 6 * time.Hour, RemindAfter: 72 * time.Hour,
		DeliverFor: 15 * time.Minute, Policy: testPolicy(b), Classify: classify, MaxStatedWait: 15 * time.Minute,
		FixRounds: 3, Retry: recovery.Backoff{
			Initial: time.Second, Max: 5 * time.Minute, Factor: 2,
			Jitter: recovery.NoJitter,
		},
	}
}

func testPolicy(b recovery.Backoff) *policy.Policy {
	p, err := policy.Preset("director")
	if err != nil {
		panic(err)
	}
	return p.With(policy.Limits{MaxRetries: 3, PaidCallBudget: 10, Backoff: b})
}

// classify trusts the evidence, because these tests are not about classification.
func classify(e recovery.Evidence) recovery.Finding {
	if strings.Contains(e.Message, "ImagePull") { // the only runtime text that these tests classify
		e.Known = recovery.ImagePullFailed
	}
	return recovery.Finding{
		Reason: cmp.Or(e.Known, recovery.Reason(e.Assertion.ErrorType), recovery.Unknown),
		Cause:  cmp.Or(e.KnownCause, e.Message), RetryAfter: e.RetryAfter, Rule: "test", Confidence: 1,
		Signature: e.Stdout,
	}
}

// journal holds the batches of a driver.
type journal struct {
	batches [][]byte // batch i has sequence i+1
}

func (j *journal) append(b *Batch) uint64 {
	if b.After != uint64(len(j.batches)) {
		panic(fmt.Sprintf("batch %s is after %d, the journal has %d", b.ID, b.After, len(j.batches)))
	}
	j.batches = append(j.batches, bytes.Clone(b.Data))
	return uint64(len(j.batches))
}

// replay applies the batches after a sequence.
func (j *journal) replay(m *Machine, after uint64) error {
	for _, data := range j.batches[after:] {
		records, err := ReadBatch(data)
		if err != nil {
			return err
		}
		m.Replay(records)
	}
	return nil
}

// facts returns all facts in the journal.
func (j *journal) facts(t rapid.TB) []Fact {
	var all []Fact
	for _, data := range j.batches {
		records, err := ReadBatch(data)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			all = append(all, r.Facts...)
		}
	}
	return all
}

// sound checks the consistency of a machine between two steps.
func sound(m *Machine) error { return soundWith(m, m.cfg.MaxWorkers) }

// soundWith is like sound, but allows more slots, because tasks keep their slots after the number was lowered.
func soundWith(m *Machine, most int) error {
	slots := 0
	for _, t := range m.hard.Tasks {
		if t.holdsSlot() {
			slots++
		}
		if err := m.waits(t); err != nil {
			return fmt.Errorf("%s (attempt %d): %w", t.Key, t.Attempt, err)
		}
		if len(t.Reports) > maxReports || len(t.History) > maxHistory || len(t.Outbox) > 3 {
			return fmt.Errorf("%s remembers too much: %d reports, %d failures, %d effects", t.Key, len(t.Reports),
				len(t.History), len(t.Outbox))
		}
		if t.Tally.Redispatches > m.cfg.Policy.Guards().MaxRetries {
			return fmt.Errorf("%s was dispatched again %d times", t.Key, t.Tally.Redispatches)
		}
		if m.Task(t.Key) != t || m.nonces[t.Nonce] != t {
			return fmt.Errorf("%s cannot be found", t.Key)
		}
	}
	if n := m.countTasks((*Task).owesContent); n != m.owes {
		return fmt.Errorf("%d tasks owe content, %d are counted", n, m.owes)
	}
	if n := m.countTasks((*Task).awaitsHandIn); n != m.finished {
		return fmt.Errorf("%d tasks wait to be handed in, %d are counted", n, m.finished)
	}
	if got, want := m.nextReady(), m.nextOfAll(); got != want {
		return fmt.Errorf("%v goes next, but it should be %v", got, want)
	}
	for _, t := range m.hard.Tasks {
		if n := m.slots.byRepo[strings.ToLower(t.Key.Repo())]; n != m.countSlots(
			func(o *Task) bool { return strings.EqualFold(o.Key.Repo(), t.Key.Repo()) }) {
			return fmt.Errorf("%d workers are counted in the repository of %s", n, t.Key)
		}
		for _, label := range t.Standing.Capped {
			if n := m.slots.byLabel[label]; n != m.countSlots(
				func(o *Task) bool { return slices.Contains(o.Standing.Capped, label) }) {
				return fmt.Errorf("%d workers are counted with the label %s", n, label)
			}
		}
	}
	switch {
	case slots != m.slots.n:
		return fmt.Errorf("%d tasks hold slots, %d are counted", slots, m.slots.n)
	case slots > most:
		return fmt.Errorf("%d slots are held, director.max_workers is %d", slots, m.cfg.MaxWorkers)
	case len(m.tasks) != len(m.hard.Tasks) || len(m.nonces) != len(m.hard.Tasks):
		return fmt.Errorf("%d tasks in order, %d by key, %d by nonce", len(m.hard.Tasks), len(m.tasks), len(m.nonces))
	case m.hard.Phase == PhaseCooldown && m.NextDeadline().IsZero():
		return fmt.Errorf("a cooldown without end")
	case m.hard.Phase == PhaseMonitor && m.githubOpensAt().After(m.now):
		return fmt.Errorf("GitHub cools down, but the phase is %s", m.hard.Phase)
	}
	return nil
}

func (m *Machine) countSlots(of func(*Task) bool) int {
	return m.countTasks(func(t *Task) bool { return t.holdsSlot() && of(t) })
}

func (m *Machine) countTasks(of func(*Task) bool) (n int) {
	for _, t := range m.hard.Tasks {
		if of(t) {
			n++
		}
	}
	return n
}

// nextOfAll is a simple version of nextReady that examines every task.
func (m *Machine) nextOfAll() *Task {
	if !m.slotFree() || m.hostOpensAt().After(m.now) {
		return nil
	}
	var next, last *Task
	all := slices.Clone(m.hard.Tasks)
	slices.SortStableFunc(all, func(a, b *Task) int { return cmp.Compare(a.Key.Repo(), b.Key.Repo()) })
	for _, t := range all {
		switch {
		case !t.ready.in, t.State == Queued && !m.mayClaim(), m.modelOpensAt().After(m.now) && t.Next.usesModel(),
			!m.admits(t), m.cappedBy(t) != "":
		case m.failedLast(t):
			if last == nil || compareTurns(t, last) < 0 {
				last = t
			}
		case next == nil || m.before(t, next):
			next = t
		}
	}
	return cmp.Or(next, last)
}

// mustPlan maps states to the effect that a task in that state must have planned.
var mustPlan = map[State]EffectKind{Claiming: DoClaim, Stopping: DoStop, Delivering: DoDeliver, Released: DoRelease}

// waits returns an error if the task could never continue.
func (m *Machine) waits(t *Task) error {
	if k, ok := mustPlan[t.State]; ok && !t.plans(k) {
		return fmt.Errorf("%s without a planned %s", t.State, k)
	}
	timer := t.timer.in
	if len(t.Outbox) > 0 && m.hard.Phase != PhaseShutdown {
		p := t.Outbox[0]
		if t.soft.inFlight == "" && !m.githubBlocked(p.Effect.Kind) && (!timer || !p.NotBefore.After(m.now)) {
			return fmt.Errorf("%s: %s is never carried out", t.State, p.Effect.ID)
		}
	}
	switch t.State {
	case Queued:
		if t.ready.in == (len(t.Standing.After) > 0 || !m.takes(t)) {
			return fmt.Errorf("queued, in the queue: %v, after %v", t.ready.in, t.Standing.After)
		}
		if err := m.slotBeside(); err != nil && t.ready.in && m.cappedBy(t) == "" && m.mayClaim() {
			return fmt.Errorf("queued %w", err)
		}
	case Starting:
		if !timer && !t.plans(DoStart) {
			return fmt.Errorf("starting without a deadline")
		}
	case Running, Suspect:
		if !timer {
			return fmt.Errorf("%s without a deadline", t.State)
		}
	case Backoff:
		if !timer && !t.ready.in && len(t.Outbox) == 0 {
			return fmt.Errorf("backoff without a deadline")
		}
		if err := m.slotBeside(); err != nil && t.ready.in {
			return fmt.Errorf("due %w", err)
		}
	case Blocked: // waits for a human
	case Forgotten, Done:
		if !t.plans(DoRelease) {
			return fmt.Errorf("%s, but in memory", t.State)
		}
	}
	return nil
}

// slotBeside returns an error if a slot is free although a ready task could use it.
func (m *Machine) slotBeside() error {
	switch {
	case !m.slotFree():
		return nil
	case m.nextReady() != nil:
		return errors.New("with a free slot")
	case m.NextDeadline().IsZero() && m.modelOpensAt().After(m.now):
		return errors.New("without a deadline, though the model cools down")
	case m.NextDeadline().IsZero() && !slices.ContainsFunc(m.hard.Incidents,
		func(i Incident) bool { return i.Breaker.Held }):
		return errors.New("without a deadline, though an incident keeps it back")
	}
	return nil
}

// sameState compares the hard state of two machines.
func sameState(a, b *Machine) error {
	x, err := a.Snapshot()
	if err != nil {
		return err
	}
	y, err := b.Snapshot()
	if err != nil {
		return err
	}
	if !bytes.Equal(x, y) {
		return fmt.Errorf("states differ:\n%s\n%s", x, y)
	}
	return nil
}

func mustStep(t testing.TB, m *Machine, at time.Time, body EventBody) ([]Fact, []Effect) {
	t.Helper()
	f, e := m.Step(Event{At: at, Body: body})
	if err := sound(m); err != nil {
		t.Fatalf("after %T: %v", body, err)
	}
	return f, e
}
