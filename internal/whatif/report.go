package whatif

import (
	"cmp"
	"slices"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

// Report lists the verdicts that would have been different.
type Report struct {
	From    time.Time      `json:"from,omitzero"` // times of the first and last examined verdicts
	To      time.Time      `json:"to,omitzero"`
	Issues  []fsm.IssueKey `json:"issues"` // issues with an examined verdict
	Counts  Counts         `json:"counts"`
	Changes []Change       `json:"changes"` // the cases grouped by their difference, most frequent first
	Totals  Totals         `json:"totals"`
	Cases   []*Case        `json:"cases"` // in journal order
}

// Counts classifies the examined verdicts. Same, Differ, Later, NotAsked and Unknown add up to the number of verdicts.
type Counts struct {
	Same        int `json:"same"`
	Differ      int `json:"differ"`
	Already     int `json:"already"`      // part of Differ; the current configuration agrees with the tested one
	Later       int `json:"later"`        // not compared, because an earlier verdict already differed
	NotAsked    int `json:"not_asked"`    // not compared, because no policy applies, for example to work that cannot be delivered
	Unknown     int `json:"unknown"`      // not compared, because the task's start is missing from the journal
	ByIncident  int `json:"by_incident"`  // an incident decides in either case
	PolicyAlone int `json:"policy_alone"` // part of ByIncident; without the incident, the policies would differ
	Unread      int `json:"unread"`       // the report was missing or not read, so the recorded finding applies
}

// Kinds of differences. A case has the first kind that matches. Only the first two change the claim's later history.
const (
	KindAction   = "action"
	KindValidate = "validate"
	KindReason   = "reason"
	KindDelay    = "delay"
	KindCharges  = "charges"
	KindCloses   = "closes"
	KindAsks     = "asks"
)

// kinds is the table of differences, in order of precedence.
var kinds = []struct {
	kind      string
	elsewhere bool // the difference would have changed the claim's later history
	is        func(was, would *fsm.VerdictMade) bool
}{
	{KindAction, true, func(a, b *fsm.VerdictMade) bool { return a.Verdict.Action != b.Verdict.Action }},
	{KindValidate, true, func(a, b *fsm.VerdictMade) bool { return a.Validate != b.Validate }},
	{KindReason, false, func(a, b *fsm.VerdictMade) bool { return a.Finding.Reason != b.Finding.Reason }},
	{KindDelay, false, func(a, b *fsm.VerdictMade) bool { return a.Verdict.Delay != b.Verdict.Delay }},
	{KindCharges, false, func(a, b *fsm.VerdictMade) bool { return a.Verdict.Charges != b.Verdict.Charges }},
	{KindCloses, false, func(a, b *fsm.VerdictMade) bool { return a.Verdict.Cools != b.Verdict.Cools }},
	{KindAsks, false, func(a, b *fsm.VerdictMade) bool {
		return !a.Verdict.Action.Again() && (asksElse(a.Verdict, b.Verdict) || a.Verdict.Reason != b.Verdict.Reason)
	}},
}

// asksElse reports whether two verdicts ask a person different questions. It compares only texts from policies, because
// the default texts depend on Retake's version.
func asksElse(a, b recovery.Verdict) bool {
	topic := fsm.TopicOf(a)
	return topic != fsm.TopicOf(b) || topic == recovery.TopicPolicy && a.Ask != b.Ask
}

// differs returns the first difference, or "" if the decisions are equal. It ignores rows, counters, and all texts
// except a policy's question to a person.
func differs(was, would fsm.VerdictMade) (kind string, elsewhere bool) {
	for _, k := range kinds {
		if k.is(&was, &would) {
			return k.kind, k.elsewhere
		}
	}
	return "", false
}

// Change counts the cases with the same difference.
type Change struct {
	Reason recovery.Reason `json:"reason"`
	Was    recovery.Action `json:"was"`
	Would  recovery.Action `json:"would_be"`
	Kind   string          `json:"differs_in"`
	Count  int             `json:"count"`
}

// Case is a verdict that would have been different.
type Case struct {
	At      time.Time    `json:"at"`
	Issue   fsm.IssueKey `json:"issue"`
	Worker  string       `json:"attempt_id"`
	Attempt int          `json:"attempt"`
	Stage   string       `json:"stage,omitempty"`
	Cause   string       `json:"cause"`
	Kind    string       `json:"differs_in"`
	Already bool         `json:"already"` // the current configuration makes the same decision as the tested one
	Was     Decision     `json:"was"`
	Would   Decision     `json:"would_be"`
	Later   int          `json:"later"`      // number of later verdicts on the claim, which are not compared
	Then    Then         `json:"afterwards"` // later events of the claim
	place   int          // index among the journal's verdicts
}

// Decision is the part of a verdict that people see.
type Decision struct {
	Reason       recovery.Reason `json:"reason"`
	Rule         string          `json:"rule,omitempty"` // rule of the finding
	Action       recovery.Action `json:"action"`
	DelaySeconds float64         `json:"delay_seconds"`
	Charges      recovery.Cause  `json:"charges,omitempty"`
	Closes       string          `json:"closes,omitempty"`
	Row          string          `json:"row"`
	Veto         string          `json:"veto,omitempty"`
	Why          string          `json:"why"`
}

// Then summarises the events after the verdict, until a person answered or the work was delivered.
type Then struct {
	Attempts        int            `json:"attempts"`
	Usage           recovery.Usage `json:"usage"`
	Delivered       bool           `json:"delivered"`
	AnsweredSeconds float64        `json:"answered_seconds,omitempty"` // the time until a person answered
}

func newCase(at time.Time, t *fsm.Task, was, would fsm.VerdictMade, kind string) *Case {
	return &Case{
		At: at, Issue: t.Key, Worker: fsm.AttemptID(t.Nonce, was.Attempt), Attempt: was.Attempt, Stage: was.Stage,
		Cause: was.Finding.Cause,
		Kind:  kind, Was: decision(was), Would: decision(would),
	}
}

func decision(f fsm.VerdictMade) Decision {
	v := &f.Verdict
	return Decision{
		Reason: f.Finding.Reason, Rule: f.Finding.Rule, Action: v.Action, DelaySeconds: v.Delay.Seconds(),
		Charges: v.Charges, Closes: v.Cools,
		Row: v.Row, Veto: v.Veto, Why: v.Why,
	}
}

// Totals sums up the cases. A case that changes a claim's later history is the last case of that claim.
type Totals struct {
	MoreAttempts  int `json:"more_attempts"`
	FewerAttempts int `json:"fewer_attempts"`
	MoreAsked     int `json:"more_asked"` // additional questions to a person
	FewerAsked    int `json:"fewer_asked"`
	Longer        int `json:"longer_waits"` // among the cases with a retry under both policies
	Shorter       int `json:"shorter_waits"`
	NowCharged    int `json:"now_charged"` // the retry would be charged, but was not
	NowFree       int `json:"now_free"`
	// SparedAttempts counts attempts after verdicts that would not have retried, and SparedUsage sums up their usage.
	// SparedDelivered counts the claims that delivered work through these attempts.
	SparedAttempts  int            `json:"spared_attempts"`
	SparedUsage     recovery.Usage `json:"spared_usage"`
	SparedDelivered int            `json:"spared_delivered"`
}

// Compare marks cases that also occur under the current configuration, and are therefore not caused by the tested one.
func (r *Report) Compare(today *Report) {
	r.Counts.Already = 0
	i := 0
	for _, c := range r.Cases { // both lists are in journal order
		for i < len(today.Cases) && today.Cases[i].place < c.place {
			i++
		}
		c.Already = i < len(today.Cases) && today.Cases[i].place == c.place && today.Cases[i].Would == c.Would
		if c.Already {
			r.Counts.Already++
		}
	}
}

// count groups the cases by their difference.
func (r *Report) count() {
	r.Changes = r.Changes[:0]
	for _, c := range r.Cases {
		one := Change{Reason: c.Was.Reason, Was: c.Was.Action, Would: c.Would.Action, Kind: c.Kind}
		i := slices.IndexFunc(r.Changes, func(k Change) bool { k.Count = 0; return k == one })
		if i < 0 {
			i = len(r.Changes)
			r.Changes = append(r.Changes, one)
		}
		r.Changes[i].Count++
	}
	slices.SortStableFunc(r.Changes, func(a, b Change) int { return cmp.Compare(b.Count, a.Count) })
}

// total sums up the cases.
func (r *Report) total() {
	t := Totals{}
	for _, c := range r.Cases {
		was, would := c.Was.Action.Again(), c.Would.Action.Again()
		for _, one := range []struct {
			n  *int
			is bool
		}{
			{&t.MoreAttempts, !was && would},
			{&t.FewerAttempts, was && !would},
			{&t.MoreAsked, !asks(c.Was.Action) && asks(c.Would.Action)},
			{&t.FewerAsked, asks(c.Was.Action) && !asks(c.Would.Action)},
			{&t.Longer, was && would && c.Would.DelaySeconds > c.Was.DelaySeconds},
			{&t.Shorter, was && would && c.Would.DelaySeconds < c.Was.DelaySeconds},
			{&t.NowCharged, was && would && c.Was.Charges == "" && c.Would.Charges != ""},
			{&t.NowFree, was && would && c.Was.Charges != "" && c.Would.Charges == ""},
			{&t.SparedDelivered, was && !would && c.Then.Delivered},
		} {
			if one.is {
				*one.n++
			}
		}
		if was && !would {
			t.SparedAttempts += c.Then.Attempts
			t.SparedUsage = t.SparedUsage.Plus(c.Then.Usage)
		}
	}
	r.Totals = t
}

// asks reports whether the action needs a person.
func asks(a recovery.Action) bool { return !a.Again() && a != recovery.Reclaim }
