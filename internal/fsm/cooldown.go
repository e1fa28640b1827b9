package fsm

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"retake/internal/recovery"
)

// GitHub resources. A limit on GitHubRead, GitHubWrite or GitHubAPI closes all of GitHub. A limit on another resource,
// such as "github.graphql", affects only the requests that use that resource, and the gate enforces it.
const (
	GitHubRead  = "github.read"
	GitHubWrite = "github.write"
	GitHubAPI   = recovery.GitHubAPI // closed while GitHub does not answer
	// GitHubClaims is closed while issues that are already claimed need the rest of the hour's quota for comments and
	// pull requests.
	GitHubClaims = "github.claims"
)

// Cooldown closes a resource until a given time.
type Cooldown struct {
	Resource string    `json:"resource"`
	Until    time.Time `json:"until"`
	Why      string    `json:"why"`
	Since    time.Time `json:"since,omitzero"` // when it was closed; zero in old journals
	// By contains the workers' statements that caused the cooldown: one statement, or two from different tasks. It is
	// empty if the director itself observed the limit.
	By []Stated `json:"by,omitempty"`
}

// Stated is a limit that a worker reported.
type Stated struct {
	Task    IssueKey  `json:"task"`
	Attempt int       `json:"attempt"`
	At      time.Time `json:"at"`
	Until   time.Time `json:"until"` // at most longestStated after At
	Text    string    `json:"text"`
}

// Statement combines the reports of one task's workers about one resource. The machine drops statements older than
// longestStated.
type Statement struct {
	Resource string `json:"resource"`
	// Stated is the latest report. Its Until is the latest deadline among the reports that count, or zero once the
	// limit has been lifted.
	Stated
	// Alone is the total time for which only this task's reports closed this resource, within the day that begins at
	// From. It excludes times when they had already closed another resource.
	From  time.Time     `json:"from"`
	Alone time.Duration `json:"alone,omitempty"`
	// AloneUntil is the last deadline that only this task stated. Older versions did not record it.
	AloneUntil time.Time `json:"alone_until,omitzero"`
}

// Limits on workers' statements: the maximum wait (a quota lasts at most a day), the number of resources per task, and
// the total number of statements.
const (
	longestStated   = 24 * time.Hour
	maxStatedOfTask = 4
	maxStatements   = 256
)

// Cooldowns lists the resources that are closed now.
func (m *memory) Cooldowns() []Cooldown {
	return slices.DeleteFunc(slices.Clone(m.hard.Cooldowns), func(c Cooldown) bool { return !c.Until.After(m.now) })
}

// Limits on ended cooldowns, which the machine remembers because a claim becomes stale only some time after the last
// cooldown.
const (
	keptAfterEnd = 24 * time.Hour
	mostEnded    = 32
)

// withoutLongEnded drops cooldowns that ended at least keptAfterEnd ago. Of the other ended cooldowns, it keeps only
// the newest mostEnded.
func withoutLongEnded(all []Cooldown, now time.Time) []Cooldown {
	ended := 0
	for _, c := range all {
		if !c.Until.After(now) {
			ended++
		}
	}
	return slices.DeleteFunc(all, func(c Cooldown) bool {
		if c.Until.After(now) {
			return false
		}
		ended--
		return ended >= mostEnded || now.Sub(c.Until) >= keptAfterEnd
	})
}

func (c CooldownReported) step(m *Machine) { m.coolDown(Cooldown(c)) }

// Once an attempt has ended, its worker's statements no longer count.
func (l LimitReported) step(m *Machine) {
	if t, current := m.Worker(l.Worker); current {
		m.limitStated(t, l.Resource, l.Until, l.Text)
	}
}

// coolDown closes a resource, unless it is already closed for at least that long.
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

// limitStated closes a resource for all tasks because a worker reported a limit. One task alone can close resources for
// at most MaxStatedWait in total per day, even if it invents resource names. After that, another task tries the
// resource, and confirms the limit if it is real. If two tasks report a limit within twice that time, the resource
// stays closed until the earlier of their deadlines.
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
		s.From, s.Alone, s.AloneUntil = day.from, 0, time.Time{}
	}
	closed := later(m.now, m.closed(resource).Until)
	to, by, charge := closed, []Stated(nil), time.Duration(0)
	if second, ok := m.secondOf(s); ok {
		to, by = sooner(s.Until, second.Until), []Stated{second.Stated, s.Stated}
	}
	free := later(closed, day.until) // earlier time is already closed, or already counted for this task
	alone := sooner(sooner(until, m.now.Add(m.cfg.MaxStatedWait)), free.Add(m.cfg.MaxStatedWait-day.alone))
	if alone.After(to) {
		to, by, charge = alone, []Stated{s.Stated}, max(0, alone.Sub(free))
	}
	switch {
	case m.isNews(closed, to):
		if s.Alone += charge; len(by) == 1 {
			s.AloneUntil = to
		}
	case m.isNews(was, s.Until): // keep it as evidence, although it does not close the resource
		by = nil
	default:
		return
	}
	m.record(LimitStated(s))
	if by != nil {
		m.coolDown(Cooldown{Resource: resource, Until: to, Why: text, By: by})
	}
}

// isNews reports whether a new deadline differs enough from the previous one to be recorded. A waiting worker repeats
// the deadline plus a few seconds, which is not enough.
func (m *recorder) isNews(was, is time.Time) bool {
	return is.Sub(was) >= max(time.Second, was.Sub(m.now)/20)
}

// counts reports whether a statement is still evidence: its deadline is in the future, and its age is at most twice
// MaxStatedWait. So after one task has closed the resource for MaxStatedWait, another task has the same time to confirm
// the limit.
func (m *recorder) counts(s Statement) bool {
	return s.Until.After(m.now) && m.now.Sub(s.At) <= 2*m.cfg.MaxStatedWait
}

// secondOf returns another task's statement about the same resource, if one counts. It prefers the latest deadline.
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

// mayState reports whether a task may state a limit on one more resource. It does not make room by dropping statements
// from the last day, because they record how much of MaxStatedWait each task has used.
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

// aloneDay sums up how long one task alone has closed resources within a day.
type aloneDay struct {
	from  time.Time
	alone time.Duration
	until time.Time // the last deadline that only this task stated
}

// dayOf sums up a task's statements since the start of its current day, which lasts longestStated. If that day is over,
// a new one begins now.
func (m *recorder) dayOf(k IssueKey) aloneDay {
	d := aloneDay{from: m.now}
	for _, s := range m.hard.Statements {
		if s.Task.fold() == k.fold() && m.now.Before(s.From.Add(longestStated)) {
			d.from, d.alone, d.until = sooner(d.from, s.From), d.alone+s.Alone, later(d.until, s.AloneUntil)
		}
	}
	return d
}

// When an operator opens a resource, tasks that are in Backoff because of it, and deferred effects on GitHub, continue
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

// closed returns a resource's latest cooldown, even if it is over, or the zero value.
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

// githubOpensAt returns the time from which GitHub may be used.
func (m *memory) githubOpensAt() time.Time { return m.opens(closesGitHub).Until }

// hostOpensAt returns the time from which this machine can start work. Before that, its disk may be full or failing.
func (m *memory) hostOpensAt() time.Time { return m.closed(recovery.Host).Until }

// modelOpensAt returns the time from which the stages may use all of their models.
func (m *memory) modelOpensAt() time.Time { return m.opens(m.usesModel).Until }

// usesModel reports whether attempts wait for the resource because it is one of their models. If no models are
// configured, every model counts.
func (m *memory) usesModel(r string) bool {
	return r == recovery.ModelDefault || slices.Contains(m.cfg.Models, r) || len(m.cfg.Models) == 0 &&
		strings.HasPrefix(r, recovery.ModelPrefix)
}

// opens returns the cooldown with the latest deadline among the resources selected by of.
func (m *memory) opens(of func(resource string) bool) (last Cooldown) {
	for _, c := range m.hard.Cooldowns {
		if of(c.Resource) && c.Until.After(last.Until) {
			last = c
		}
	}
	return last
}

// Origin lists the attempts whose workers reported the limit. It is empty if the director itself observed the limit.
func (c Cooldown) Origin() string {
	var said []string
	for _, s := range c.By {
		said = append(said, fmt.Sprintf("%s, attempt %d", s.Task, s.Attempt))
	}
	return strings.Join(said, ", and ")
}
