package timeline

import (
	"cmp"
	"slices"
	"time"

	"retake/internal/fsm"
	"retake/internal/projection"
	"retake/internal/recovery"
)

// Numbers summarises the failures, decisions and results in a book.
type Numbers struct {
	Failures []Failed   `json:"failures"`  // oldest first
	Retries  []Retried  `json:"retries"`   // by action
	Costs    []Spent    `json:"costs"`     // one per attempt, oldest first
	Merged   []Merged   `json:"merged"`    // pull requests, oldest first
	Asked    []Asked    `json:"asked"`     // questions, oldest first
	Reasons  []ByReason `json:"by_reason"` // most frequent first
}

// Failed is one verdict on a failure. Questions from agents are in Asked instead.
type Failed struct {
	At     time.Time       `json:"at"`
	Issue  fsm.IssueKey    `json:"issue"`
	Reason recovery.Reason `json:"reason"`
	Action recovery.Action `json:"action"`
}

// Retried counts the results of the attempts started by one action.
type Retried struct {
	Action recovery.Action `json:"action"`
	OK     int             `json:"ok"`
	Failed int             `json:"failed"`
	Open   int             `json:"open"` // not started or not ended
}

// Spent is the usage of one attempt.
type Spent struct {
	At    time.Time      `json:"at"`
	Issue fsm.IssueKey   `json:"issue"`
	Usage recovery.Usage `json:"usage"`
}

// Merged is one merged pull request.
type Merged struct {
	At    time.Time    `json:"at"`
	Issue fsm.IssueKey `json:"issue"`
}

// Asked is one question to a person.
type Asked struct {
	At       time.Time    `json:"at"`
	Issue    fsm.IssueKey `json:"issue"`
	Answered time.Time    `json:"answered_at,omitzero"` // zero until a person has answered
	Again    bool         `json:"again,omitempty"`      // an earlier question about the issue was answered
	Alone    bool         `json:"alone,omitempty"`      // the question did not need a person; see projection.Outcome
}

// ByReason counts the verdicts on failures with one reason.
type ByReason struct {
	Reason recovery.Reason `json:"reason"`
	N      int             `json:"n"`
}

// maxNumbers limits the length of each list.
const maxNumbers = 20_000

// numbers collects the data for Numbers.
type numbers struct {
	failures []Failed
	costs    []Spent
	merged   []Merged
	asked    []Asked
	courses  map[fsm.IssueKey]*projection.Course
	outcomes map[recovery.Action]Retried
}

func newNumbers() numbers {
	return numbers{courses: map[fsm.IssueKey]*projection.Course{}, outcomes: map[recovery.Action]Retried{}}
}

func lastOf[T any](all []T) []T {
	if len(all) > maxNumbers {
		return slices.Clone(all[maxNumbers/10:])
	}
	return all
}

// follow updates the numbers with one fact about an issue.
func (n *numbers) follow(at time.Time, k fsm.IssueKey, f fsm.Fact) {
	key := projection.Fold(k)
	n.settle(key, f)
	switch f := f.(type) {
	case fsm.VerdictMade:
		if f.Finding.Reason != recovery.NeedsHuman { // questions are not failures
			n.failures = lastOf(append(n.failures, Failed{at, k, f.Finding.Reason, f.Verdict.Action}))
		}
	case fsm.UsageCounted:
		if spent := projection.Spent(f); spent != (recovery.Usage{}) {
			n.costs = lastOf(append(n.costs, Spent{at, k, spent}))
		}
	case fsm.EffectPlanned:
		if f.Effect.Escalation != nil {
			again := slices.ContainsFunc(n.asked, func(a Asked) bool {
				return projection.Fold(a.Issue) == key && !a.Answered.IsZero()
			})
			n.asked = lastOf(append(n.asked, Asked{At: at, Issue: k, Again: again}))
		}
	case fsm.Moved:
		if f.On == fsm.OnMerged {
			n.merged = lastOf(append(n.merged, Merged{at, k}))
		}
		if q := n.question(key); q != nil && q.Answered.IsZero() && !q.Alone && f.From == fsm.Blocked &&
			f.To != fsm.Blocked {
			q.Answered = at
		}
	}
}

// settle counts retries and questions as soon as a fact determines their result.
func (n *numbers) settle(key fsm.IssueKey, f fsm.Fact) {
	switch f.(type) {
	case fsm.TaskQueued, fsm.TaskRebuilt:
		n.courses[key] = &projection.Course{}
	}
	course := n.courses[key]
	if course == nil {
		return
	}
	settled := course.Apply(f)
	if settled.NeededNobody != "" {
		if q := n.question(key); q != nil {
			q.Alone = true
		}
	}
	if settled.Retry != nil {
		r := n.outcomes[settled.Retry.Action]
		switch settled.Became {
		case projection.PaidOff:
			r.OK++
		case projection.FailedAlike, projection.FailedOtherwise:
			r.Failed++
		}
		n.outcomes[settled.Retry.Action] = r
	}
	if m, ok := f.(fsm.Moved); ok && projection.Over(m.To) {
		delete(n.courses, key)
	}
}

// question returns the last question about an issue, or nil.
func (n *numbers) question(key fsm.IssueKey) *Asked {
	for i, a := range slices.Backward(n.asked) {
		if projection.Fold(a.Issue) == key {
			return &n.asked[i]
		}
	}
	return nil
}

// Numbers returns the counts since the given time, or all counts if it is zero. Retries always covers the whole book.
func (b *Book) Numbers(since time.Time) Numbers {
	n := &b.numbers
	out := Numbers{
		Failures: notBefore(n.failures, since, func(f Failed) time.Time { return f.At }),
		Costs:    notBefore(n.costs, since, func(s Spent) time.Time { return s.At }),
		Merged:   notBefore(n.merged, since, func(m Merged) time.Time { return m.At }),
		Asked:    notBefore(n.asked, since, func(a Asked) time.Time { return a.At }),
	}
	open := map[recovery.Action]int{}
	for _, t := range b.m.Tasks() {
		if c := n.courses[projection.Fold(t.Key)]; c != nil && c.Retry != nil {
			open[c.Retry.Action]++
		}
	}
	for _, a := range recovery.Actions {
		r := n.outcomes[a.Action]
		if r.Action, r.Open = a.Action, open[a.Action]; r.OK+r.Failed+r.Open > 0 {
			out.Retries = append(out.Retries, r)
		}
	}
	for _, f := range out.Failures {
		i := slices.IndexFunc(out.Reasons, func(r ByReason) bool { return r.Reason == f.Reason })
		if i < 0 {
			i, out.Reasons = len(out.Reasons), append(out.Reasons, ByReason{Reason: f.Reason})
		}
		out.Reasons[i].N++
	}
	slices.SortStableFunc(out.Reasons, func(x, y ByReason) int { return cmp.Compare(y.N, x.N) })
	return out
}

// notBefore returns the elements of a sorted list that are not earlier than since.
func notBefore[T any](all []T, since time.Time, at func(T) time.Time) []T {
	from := slices.IndexFunc(all, func(x T) bool { return !at(x).Before(since) })
	if from < 0 {
		return nil
	}
	return slices.Clone(all[from:])
}
