package advise

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"retake/internal/recovery"
	"retake/internal/recovery/policy"
)

// history is one line of input: the failures so far, oldest first, and the current facts.
type history struct {
	id       json.RawMessage
	failures []failure
	facts    policy.DecisionInput
}

// failure is one failure in a history.
type failure struct {
	word      string // a reason, or a name in the preset's vocabulary
	finding   recovery.Finding
	at        time.Time // only validated, because policies do not depend on dates
	usage     recovery.Usage
	recovered bool // a success followed this failure

	transient, retry, escalate *bool // flags of a report; nil if absent
}

// said returns the report's retry and escalate flags, or nil if both are absent. A missing flag leaves the policy's
// verdict unchanged.
func (x *failure) said() *recovery.Assertion {
	if x.retry == nil && x.escalate == nil {
		return nil
	}
	return &recovery.Assertion{
		Retry: x.retry == nil || *x.retry, Escalate: x.escalate != nil && *x.escalate, Explicit: true,
	}
}

// wordNames lists the fields that may contain the reason; each vocabulary uses one of them.
var wordNames = []string{"reason", "class", "error_class", "error_type", "type", "code"}

var failureFields = []field[failure]{
	at(text, func(x *failure) *string { return &x.word }, wordNames...),
	at(text, func(x *failure) *string { return &x.finding.Signature }, "signature"),
	at(moment, func(x *failure) *time.Time { return &x.at }, "at"),
	at(wait, func(x *failure) *time.Duration { return &x.finding.RetryAfter }, "retry_after_seconds"),
	at(boolean, func(x *failure) *bool { return &x.recovered }, "recovered"),
	at(optional(boolean), func(x *failure) **bool { return &x.transient }, "is_transient"),
	at(optional(boolean), func(x *failure) **bool { return &x.retry }, "should_retry"),
	at(optional(boolean), func(x *failure) **bool { return &x.escalate }, "escalate_to_human"),
}

var usageFields = []field[recovery.Usage]{
	at(amount, func(u *recovery.Usage) *int64 { return &u.Tokens }, "tokens"),
	at(amount, func(u *recovery.Usage) *int64 { return &u.PaidCalls }, "paid_calls"),
	at(amount, func(u *recovery.Usage) *int64 { return &u.CacheHits }, "cache_hits"),
	at(number, func(u *recovery.Usage) *float64 { return &u.CostUSD }, "cost_usd"),
}

var factFields = []field[policy.DecisionInput]{
	at(boolean, func(f *policy.DecisionInput) *bool { return &f.HasAlternative }, "has_alternative",
		"has_alternative_model"),
	at(boolean, func(f *policy.DecisionInput) *bool { return &f.AlreadyCompacted }, "already_compacted"),
	at(optional(integer), func(f *policy.DecisionInput) **int { return &f.BudgetLeft }, "budget_left"),
	at(text, func(f *policy.DecisionInput) *string { return &f.Caller }, "caller"),
}

// parts holds the nested fields of an object.
type parts struct {
	failures     []json.RawMessage
	facts, usage object
}

var partFields = []field[parts]{
	at(list, func(p *parts) *[]json.RawMessage { return &p.failures }, "failures"),
	at(members, func(p *parts) *object { return &p.facts }, "facts"),
	at(members, func(p *parts) *object { return &p.usage }, "usage"),
}

// historyForm is the smallest valid history.
const historyForm = `{"failures": [{"reason": "…"}]}`

// history decodes and checks one line of input.
func (o *Deciding) history(data []byte) (history, error) {
	fields, err := parse(data, historyForm)
	if err != nil {
		return history{}, err
	}
	h, p := history{id: copied(fields["id"])}, parts{}
	if err := fill(&p, fields, "", partFields); err != nil {
		return h, err
	}
	if err := fillOnly(&h.facts, p.facts, "facts.", factFields); err != nil {
		return h, err
	}
	if len(p.failures) == 0 {
		return h, errors.New("failures: want at least one, because the verdict is about the last one")
	}
	h.failures = make([]failure, len(p.failures))
	for i, raw := range p.failures {
		if err := o.fill(&h.failures[i], raw, fmt.Sprintf("failures[%d]", i)); err != nil {
			return h, err
		}
	}
	return h, nil
}

// fill reads one failure at path.
func (o *Deciding) fill(x *failure, raw json.RawMessage, path string) error {
	var fields object
	var p parts
	if !members.read(raw, &fields) || fields == nil {
		return fmt.Errorf("%s: want %s, got %s", path, members.want, brief(raw))
	}
	if err := fill(x, fields, path+".", failureFields); err != nil {
		return err
	}
	if err := fill(&p, object{"usage": fields["usage"]}, path+".", partFields); err != nil {
		return err
	}
	if err := fillOnly(&x.usage, p.usage, path+".usage.", usageFields); err != nil {
		return err
	}
	var ok bool
	if x.finding.Reason, ok = o.reason(x.word); ok {
		return nil
	}
	name, got := wordNames[0], "nothing"
	for _, n := range slices.Backward(wordNames) {
		if raw, ok := fields[n]; ok && string(raw) != "null" {
			name, got = n, brief(raw)
		}
	}
	return fmt.Errorf("%s.%s: want a reason, or a name from %s, got %s", path, name, o.Vocabulary, got)
}

// reason returns the reason for a name. It looks the name up in the vocabulary, then as an error_type or reason, and
// then in the policy's rows.
func (o *Deciding) reason(word string) (recovery.Reason, bool) {
	if r, ok := recovery.FromWord(o.Vocabulary, word); ok {
		return r, true
	}
	if r, ok := recovery.ReasonOf(word); ok {
		return r, true
	}
	r, ok := o.words[strings.ToLower(word)]
	return r, ok
}

// ownWords maps the policy's own names for groups of reasons, in lower case, to the first reason of each group.
func ownWords(p *policy.Policy) map[string]recovery.Reason {
	words := map[string]recovery.Reason{}
	for _, r := range p.Table() {
		if len(r.Reasons) > 0 {
			words[strings.ToLower(r.On)] = r.Reasons[0]
		}
	}
	return words
}
