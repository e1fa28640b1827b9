package fsm

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"retake/internal/recovery"
)

// A limit on these resources of GitHub closes all of GitHub. A limit on another one, such as "github.graphql", only
// affects the requests that use it. The gate handles that.
const (
	GitHubRead  = "github.read"
	GitHubWrite = "github.write"
	GitHubAPI   = recovery.GitHubAPI // closed while GitHub does not answer
	// GitHubClaims is closed while the claimed issues need the rest of the hour's quota for new content.
	GitHubClaims = "github.claims"
)

// Cooldown is a deadline before which a resource is not used.
type Cooldown struct {
	Resource string    `json:"resource"`
	Until    time.Time `json:"until"`
	Why      string    `json:"why"`
	Since    time.Time `json:"since,omitzero"` // when it was closed; zero in old journals
	// By are the workers' statements behind the cooldown: one, or two of different tasks. It is empty if the
	// director saw the limit itself.
	By []Stated `json:"by,omitempty"`
}

// Stated is a limit as a worker reported it.
type Stated struct {
	Task    IssueKey  `json:"task"`
	Attempt int       `json:"attempt"`
	At      time.Time `json:"at"`
	Until   time.Time `json:"until"` // at most longestStated after At
	Text    string    `json:"text"`
}

// Statement holds the reports of one task's workers about one resource, as long as they matter.
type Statement struct {
	Resource string `json:"resource"`
	// Stated is the last statement. Its Until is the latest deadline of the statements that count, or zero after the
	// limit was lifted.
	Stated
	// Alone is the time for which only this task's statements closed this resource, during the day that began at From.
	// Time in which they closed another resource as well does not count.
	From  time.Time     `json:"from"`
	Alone time.Duration `json:"alone,omitempty"`
	// AloneUntil is the last deadline that only this task stated. Older versions did not record it.
	AloneUntil time.Time `json:"alone_until,omitzero"`
}

// Bounds on the statements of workers. Quotas last a day at most. The number of resources per task and the total number
// of statements are limited.
const (
	longestStated   = 24 * time.Hour
	maxStatedOfTask = 4
	maxStatements   = 256
)

// Cooldowns lists the resources that are closed now.
func (m *memory) Cooldowns() []Cooldown {
	return slices.DeleteFunc(slices.Clone(m.hard.Cooldowns), func(c Cooldown) bool { return !c.Until.After(m.now) })
}

func (c CooldownReported) step(m *Machine) { m.coolDown(Cooldown(c)) }

// A statement of a worker is ignored after its attempt has ended.
func (l LimitReported) step(m *Machine) {
	if t, current := m.Worker(l.Worker); current {
		m.limitStated(t, l.Resource, l.Until, l.Text)
	}
}

// coolDown closes a resource, unless it is closed for at least that long already.
func (m *recorder) coolDown(c Cooldown) {
	known := m.closed(c.Resource)
	if !c.Until.After(later(m.now, known.Until)) {
		return
	}
	c.Until, c.Since = c.Until.Round(0).UTC(), m.now
	if known.Until.After(m.now) {
		c.Since = known.Since
	}
	m.record(CooldownSet(c))
	m.githubClosed = m.githubOpensAt().After(m.now)
	if m.hard.Phase == PhaseMonitor && m.githubClosed {
		m.setPhase(PhaseCooldown, c.Resource+": "+c.Why)
	}
}

// limitStated closes a resource for others because a worker reported a limit. One task alone can close resources for at
// most MaxStatedWait in total per day, even if it invents names of resources. If two tasks state a limit within twice
// that time, the resource stays closed until the earlier of their deadlines. After the cap another task tries and, if
// the limit is real, confirms it.
func (m *recorder) limitStated(t *Task, resource string, until time.Time, text string) {
	s, known := m.statement(resource, t.Key)
	until = sooner(until, m.now.Add(longestStated)).Round(0).UTC()
	if !until.After(m.now) || !known && !m.mayState(t.Key) {
		return
	}
	was := s.Until
	if !m.counts(s) {
		was = m.now
	}
	s.Resource = resource
	s.Stated = Stated{Task: t.Key, Attempt: t.Attempt, At: m.now, Until: later(until, was), Text: text}
	day := m.dayOf(t.Key)
	if s.From != day.from {
		s.From, s.Alone = day.from, 0
	}
	closed := later(m.now, m.closed(resource).Until)
	to, by, charge := closed, []Stated(nil), time.Duration(0)
	if second, ok := m.secondOf(s); ok {
		to, by = sooner(s.Until, second.Until), []Stated{second.Stated, s.Stated}
	}
	free := later(closed, day.until) // the wait before this time is not counted
	alone := sooner(sooner(until, m.now.Add(m.cfg.MaxStatedWait)), free.Add(m.cfg.MaxStatedWait-day.alone))
	if alone.After(to) {
		to, by, charge, s.AloneUntil = alone, []Stated{s.Stated}, max(0, alone.Sub(free)), alone
	}
	switch {
	case m.isNews(closed, to):
		s.Alone += charge
	case m.isNews(was, s.Until): // kept as evidence, although it does not close the resource
		by = nil
	default:
		return
	}
	m.record(LimitStated(s))
	if by != nil {
		m.coolDown(Cooldown{Resource: resource, Until: to, Why: text, By: by})
	}
}

// isNews reports whether a deadline is worth a record after another one. A worker that already waits for the
// resource repeats the deadline plus a few seconds, which is not news.
func (m *recorder) isNews(was, is time.Time) bool {
	return is.Sub(was) >= max(time.Second, was.Sub(m.now)/20)
}

// counts reports whether a statement is still evidence. Its deadline must be in the future, and its age at most twice
// MaxStatedWait. That covers the cap that it may have caused and some time after it.
func (m *recorder) counts(s Statement) bool {
	return s.Until.After(m.now) && m.now.Sub(s.At) <= 2*m.cfg.MaxStatedWait
}

// secondOf returns another task's statement about the same resource that still counts. If there are several, it returns
// the one with the latest deadline.
func (m *recorder) secondOf(s Statement) (second Statement, ok bool) {
	for _, o := range m.hard.Statements {
		if o.Resource == s.Resource && o.Task.fold() != s.Task.fold() && m.counts(o) && o.Until.After(second.Until) {
			second, ok = o, true
		}
	}
	return second, ok
}

func (m *recorder) statement(resource string, k IssueKey) (Statement, bool) {
	for _, s := range m.hard.Statements {
		if s.Resource == resource && s.Task.fold() == k.fold() {
			return s, true
		}
	}
	return Statement{}, false
}

// mayState reports whether there is room for a task's statement about one more resource. Statements that still
// count are never dropped to make room, because that would forget how much of its day a task has used up.
func (m *recorder) mayState(k IssueKey) bool {
	all, own := 0, 0
	for _, s := range m.hard.Statements {
		if m.now.Sub(s.At) < longestStated {
			all++
			if s.Task.fold() == k.fold() {
				own++
			}
		}
	}
	return all < maxStatements && own < maxStatedOfTask
}

// aloneDay sums up the time for which one task alone has closed resources within a day.
type aloneDay struct {
	from  time.Time
	alone time.Duration
	until time.Time // the last deadline that only this task stated
}

// dayOf sums up a task's statements since its day began. A new day begins now if the last one is over.
func (m *recorder) dayOf(k IssueKey) aloneDay {
	d := aloneDay{from: m.now}
	for _, s := range m.hard.Statements {
		if s.Task.fold() == k.fold() && m.now.Before(s.From.Add(longestStated)) {
			d.from, d.alone, d.until = sooner(d.from, s.From), d.alone+s.Alone, later(d.until, s.AloneUntil)
		}
	}
	return d
}

// An operator opens a resource. The tasks in Backoff because of it and the deferred effects on GitHub continue
// at once.
func (l LiftCommanded) step(m *Machine) {
	if !m.closed(l.Resource).Until.After(m.now) {
		return
	}
	f := CooldownLifted{Resource: l.Resource}
	for _, t := range m.hard.Tasks {
		if t.State == Backoff && t.Until.After(m.now) && t.Next.Action.About().Free &&
			t.failedResource(t.Next.Reason, t.Ending.Stage) == l.Resource {
			f.Tasks = append(f.Tasks, t.Key)
		}
	}
	m.record(f)
	m.dispatchableSince = m.now
	m.revisitAll()
	if !ofGitHub(l.Resource) {
		return
	}
	for _, t := range m.hard.Tasks {
		if len(t.Outbox) > 0 && t.soft.inFlight == "" && t.Outbox[0].NotBefore.After(m.now) &&
			slices.Contains(githubEffects, t.Outbox[0].Effect.Kind) {
			p := t.Outbox[0]
			m.record(EffectDeferred{
				OfTask: OfTask{t.Key}, Effect: p.Effect.ID, Tries: p.Tries, Refused: p.Refused,
				Until: m.now, Why: "an operator lifted the wait for " + l.Resource,
			})
		}
	}
}

// closed returns the last cooldown of one resource, which may be over, or the zero value.
func (m *memory) closed(resource string) Cooldown {
	for _, c := range m.hard.Cooldowns {
		if c.Resource == resource {
			return c
		}
	}
	return Cooldown{}
}

func ofGitHub(resource string) bool { return strings.HasPrefix(resource, "github.") }

// closesGitHub reports whether a limit on the resource stops intake, re-reads and writes, because all of them need it.
func closesGitHub(resource string) bool {
	return slices.Contains([]string{GitHubRead, GitHubWrite, GitHubAPI, recovery.GitHubGit}, resource)
}

// githubOpensAt returns when GitHub may be used again.
func (m *memory) githubOpensAt() time.Time { return m.opens(closesGitHub).Until }

// hostOpensAt returns when this machine can start new work again. Until then its disk may be full or failing.
func (m *memory) hostOpensAt() time.Time { return m.closed(recovery.Host).Until }

// modelOpensAt returns when the models that the stages use may be used again.
func (m *memory) modelOpensAt() time.Time { return m.opens(m.usesModel).Until }

// usesModel reports whether attempts wait for the resource because it is one of their models. Without configured
// models, every model counts.
func (m *memory) usesModel(r string) bool {
	return r == recovery.ModelDefault || slices.Contains(m.cfg.Models, r) || len(m.cfg.Models) == 0 &&
		strings.HasPrefix(r, recovery.ModelPrefix)
}

// opens returns the cooldown with the latest deadline among the resources for which of returns true.
func (m *memory) opens(of func(resource string) bool) (last Cooldown) {
	for _, c := range m.hard.Cooldowns {
		if of(c.Resource) && c.Until.After(last.Until) {
			last = c
		}
	}
	return last
}

// Origin names the workers whose statements closed the resource. It is empty if the director saw the limit
// itself.
func (c Cooldown) Origin() string {
	var said []string
	for _, s := range c.By {
		said = append(said, fmt.Sprintf("%s, attempt %d", s.Task, s.Attempt))
	}
	return strings.Join(said, ", and ")
}
