package story

import (
	"cmp"
	"slices"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

// Numbers are what failed, what was done about it, and what came of that, as far as the book remembers.
type Numbers struct {
	Failures []Failed   `json:"failures"`  // the oldest first
	Retries  []Retried  `json:"retries"`   // by action
	Costs    []Spent    `json:"costs"`     // by attempt, the oldest first
	Asked    []Asked    `json:"asked"`     // questions, the oldest first
	Reasons  []ByReason `json:"by_reason"` // the most frequent first
}

// Failed is one verdict.
type Failed struct {
	At     time.Time       `json:"at"`
	Issue  fsm.IssueKey    `json:"issue"`
	Reason recovery.Reason `json:"reason"`
	Action recovery.Action `json:"action"`
}

// Retried is what became of the attempts that an action began.
type Retried struct {
	Action recovery.Action `json:"action"`
	OK     int             `json:"ok"`
	Failed int             `json:"failed"`
	Open   int             `json:"open"` // not ended, or not begun, or withdrawn
}

// Spent is what an attempt has used.
type Spent struct {
	At    time.Time      `json:"at"`
	Issue fsm.IssueKey   `json:"issue"`
	Usage recovery.Usage `json:"usage"`
}

// Asked is one question to a person.
type Asked struct {
	At       time.Time    `json:"at"`
	Issue    fsm.IssueKey `json:"issue"`
	Answered time.Time    `json:"answered_at,omitzero"` // zero: not yet
	Again    bool         `json:"again,omitempty"`      // the issue was asked about before, and answered
	Alone    bool         `json:"alone,omitempty"`      // it went on without an answer
}

// ByReason counts the verdicts on a reason.
type ByReason struct {
	Reason recovery.Reason `json:"reason"`
	N      int             `json:"n"`
}

// maxNumbers bounds each list.
const maxNumbers = 20_000

// numbers collects them.
type numbers struct {
	failures []Failed
	costs    []Spent
	asked    []Asked
	granted  map[fsm.IssueKey]recovery.Action // the action that began the attempt under way, or will begin the next
	outcomes map[recovery.Action]Retried
}

func newNumbers() numbers {
	return numbers{granted: map[fsm.IssueKey]recovery.Action{}, outcomes: map[recovery.Action]Retried{}}
}

func lastOf[T any](all []T) []T {
	if len(all) > maxNumbers {
		return slices.Clone(all[maxNumbers/10:])
	}
	return all
}

// follow counts one fact about an issue.
func (n *numbers) follow(at time.Time, k fsm.IssueKey, f fsm.Fact) {
	key := folded(k)
	switch f := f.(type) {
	case fsm.VerdictMade:
		n.failures = lastOf(append(n.failures, Failed{at, k, f.Finding.Reason, f.Verdict.Action}))
		n.ended(key, OutcomeFailed)
		if f.Verdict.Action.Again() {
			n.granted[key] = f.Verdict.Action
		}
	case fsm.UsageCounted:
		if f.Ended && f.Usage != (recovery.Usage{}) {
			n.costs = lastOf(append(n.costs, Spent{at, k, f.Usage}))
		}
	case fsm.EffectPlanned:
		if f.Effect.Escalation != nil {
			again := slices.ContainsFunc(n.asked, func(a Asked) bool {
				return folded(a.Issue) == key &&
					!a.Answered.IsZero()
			})
			n.asked = lastOf(append(n.asked, Asked{At: at, Issue: k, Again: again}))
		}
	case fsm.Moved:
		n.moved(at, key, f)
	}
}

func (n *numbers) moved(at time.Time, key fsm.IssueKey, f fsm.Moved) {
	switch {
	case f.On == fsm.OnGoneOK:
		n.ended(key, OutcomeOK)
	case f.To.Info().Final || f.To == fsm.Forgotten:
		delete(n.granted, key)
	}
	if f.From != fsm.Blocked || f.To == fsm.Blocked {
		return
	}
	for i, a := range slices.Backward(n.asked) {
		if folded(a.Issue) == key && a.Answered.IsZero() && !a.Alone {
			if f.On == fsm.OnIncidentOver || f.On == fsm.OnMerged {
				n.asked[i].Alone = true
			} else {
				n.asked[i].Answered = at
			}
			return
		}
	}
}

// ended counts what became of the attempt that an action had begun.
func (n *numbers) ended(key fsm.IssueKey, outcome string) {
	action := n.granted[key]
	if action == "" {
		return
	}
	delete(n.granted, key)
	r := n.outcomes[action]
	if outcome == OutcomeOK {
		r.OK++
	} else {
		r.Failed++
	}
	n.outcomes[action] = r
}

// Numbers returns a copy of what the book has counted since a time; zero: of all. Retries are counted over all.
func (b *Book) Numbers(since time.Time) Numbers {
	n := &b.numbers
	out := Numbers{
		Failures: notBefore(n.failures, since, func(f Failed) time.Time { return f.At }),
		Costs:    notBefore(n.costs, since, func(s Spent) time.Time { return s.At }),
		Asked:    notBefore(n.asked, since, func(a Asked) time.Time { return a.At }),
	}
	open := map[recovery.Action]int{}
	for _, t := range b.m.Tasks() {
		open[n.granted[folded(t.Key)]]++
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

// notBefore is the part of a list, which is in order, that is not older than a time.
func notBefore[T any](all []T, since time.Time, at func(T) time.Time) []T {
	from := slices.IndexFunc(all, func(x T) bool { return !at(x).Before(since) })
	if from < 0 {
		return nil
	}
	return slices.Clone(all[from:])
}
