package advise

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"strings"
	"time"

	"retake/internal/recovery"
	"retake/internal/recovery/policy"
)

// Deciding configures Decide.
type Deciding struct {
	Policy     *policy.Policy
	Vocabulary string // preset that defines the names of failures
	Explain    bool   // also print the question for a person

	words map[string]recovery.Reason
}

// Decide prints the verdict on each history's last failure, and returns the number of unreadable lines.
func Decide(ctx context.Context, o Deciding, sources []Source, out io.Writer) (bad int, err error) {
	o.words = ownWords(o.Policy)
	return stream(ctx, sources, out, o.answer)
}

// verdict is the JSON answer to one history. The contract fixes the names and order of its fields.
type verdict struct {
	ID          json.RawMessage  `json:"id,omitempty"`
	Action      recovery.Action  `json:"action"`
	Delay       *[2]float64      `json:"delay_seconds"` // range with jitter; null if no attempt follows
	Charges     *recovery.Cause  `json:"charges"`       // null if the action is not charged
	Why         string           `json:"why"`
	Row         string           `json:"row"`
	NextIfAgain recovery.Action  `json:"next_if_again"`
	Was         *recovery.Reason `json:"was,omitempty"`
	Veto        string           `json:"veto,omitempty"`
	Fatal       bool             `json:"fatal,omitempty"`
	Ask         string           `json:"ask,omitempty"`
}

func (o *Deciding) answer(data []byte) (any, error) {
	h, err := o.history(data)
	if err != nil {
		return nil, err
	}
	v := h.walk(o.Policy)
	a := verdict{
		ID: h.id, Action: v.Action, Why: h.inItsWords(v.Why), Row: v.Row, NextIfAgain: v.NextIfAgain, Veto: v.Veto,
		Fatal: v.Fatal,
	}
	if o.Explain && !v.Action.Again() {
		about, _ := recovery.Describe(v.Reason)
		a.Ask = cmp.Or(v.Ask, about.Ask())
	}
	if v.Action.Again() {
		a.Delay = &[2]float64{inSeconds(v.DelayMin), inSeconds(v.DelayMax)}
	}
	if v.Charges != "" {
		a.Charges = &v.Charges
	}
	if v.Was != "" {
		a.Was = &v.Was
	}
	return a, nil
}

// inItsWords replaces the reason at the start of a verdict's explanation with the name that the input used. It omits
// the reason's meaning, because the input's name may be broader.
func (h *history) inItsWords(why string) string {
	last := h.failures[len(h.failures)-1]
	reason := string(last.finding.Reason)
	rest, ok := strings.CutPrefix(why, reason+":")
	if !ok || strings.EqualFold(last.word, reason) {
		return why
	}
	about, _ := recovery.Describe(last.finding.Reason)
	return brief([]byte(last.word)) + ":" + strings.Replace(rest, " "+about.Means+";", "", 1)
}

// walk decides on the failures in order, each with the tally of those before it, and returns the last verdict. All
// input facts apply to the last failure, but only HasAlternative and Caller apply to earlier ones. After a verdict that
// compacts the context, later failures count as already compacted.
func (h *history) walk(p *policy.Policy) (v recovery.Verdict) {
	tally, compacted := recovery.Tally{}, false
	last := len(h.failures) - 1
	for i, x := range h.failures {
		tally = tally.Use(x.usage)
		facts := policy.DecisionInput{HasAlternative: h.facts.HasAlternative, Caller: h.facts.Caller}
		if i == last {
			facts = h.facts
		}
		facts.AlreadyCompacted = facts.AlreadyCompacted || compacted
		v = policy.Obey(p.Decide(x.finding, tally, facts, ""), x.said(), tally)
		tally = tally.After(x.finding, v)
		compacted = compacted || v.Action == recovery.RetryCompact
		if x.recovered {
			tally, compacted = tally.Succeeded(), false
		}
	}
	return v
}

// inSeconds rounds to milliseconds, because binary fractions add meaningless digits.
func inSeconds(d time.Duration) float64 {
	return float64(d.Round(time.Millisecond).Milliseconds()) / 1000
}
