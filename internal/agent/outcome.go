package agent

import "strings"

// Outcome is what the events of one invocation come to.
type Outcome struct {
	Answer  string
	Ended   bool        // it said its last word
	OK      bool        // and called it a success
	Failure *Failed     // the error that stands; nil: none
	Limited RateLimited // the last limit that was heard of
	Limits  int         // how often
	Denied  []string    // at most maxDenied

	parts, total Usage
	stated       bool // there is a total
	trying       *Failed
}

const maxDenied = 8

// Add takes the next event.
func (o *Outcome) Add(e Event) {
	switch e := e.(type) {
	case Used:
		if e.Total {
			o.total, o.stated = e.Usage, true
		} else {
			o.parts = o.parts.Plus(e.Usage)
		}
		if e.Tokens > 0 {
			o.trying = nil // the model answered: what it was trying to get past is behind it
		}
	case RateLimited:
		o.Limited, o.Limits = e, o.Limits+1
	case Failed:
		o.fail(e)
	case Denied:
		if len(o.Denied) < maxDenied {
			o.Denied = append(o.Denied, e.What)
		}
	case Final:
		o.Ended, o.OK = true, e.OK
		if e.OK {
			o.Answer, o.Failure, o.trying = e.Text, nil, nil
		}
	}
}

// fail keeps the error that stands. A later word about the same one adds what the earlier lacks; it takes nothing away.
func (o *Outcome) fail(e Failed) {
	if e.Retryable {
		o.trying = &e
		if o.Failure != nil && !o.OK { // the other stream may have been quicker
			o.Failure.take(e)
		}
		return
	}
	if before := o.Failure; before != nil && (e.Message == "" || strings.Contains(before.Message, e.Message)) {
		e.Message = before.Message
		e.take(*before)
	}
	if o.trying != nil {
		e.take(*o.trying)
	}
	o.Failure = &e
}

// take fills in what e does not say itself, if b may be the same error: it has no other status.
func (e *Failed) take(b Failed) {
	if e.Status != 0 && b.Status != 0 && e.Status != b.Status {
		return
	}
	if e.Status == 0 {
		e.Status = b.Status
	}
	if e.RetryAfter == 0 {
		e.RetryAfter = b.RetryAfter
	}
	if e.Headers == nil {
		e.Headers = b.Headers
	}
	if e.Message == "" {
		e.Message = b.Message
	}
}

// Usage is what was consumed: the total if one was stated, else the sum of the parts.
func (o *Outcome) Usage() Usage {
	if o.stated {
		return o.total
	}
	return o.parts
}

// Plus adds, each of them kept from going below zero or past the largest number.
func (u Usage) Plus(v Usage) Usage {
	return Usage{
		Tokens: addUp(u.Tokens, v.Tokens), PaidCalls: addUp(u.PaidCalls, v.PaidCalls), CacheHits: addUp(u.CacheHits, v.CacheHits),
		CostUSD: min(u.CostUSD+max(v.CostUSD, 0), maxCostUSD),
	}
}

// The most that is believed: no attempt costs a million dollars or reads 10^15 tokens.
const (
	maxCostUSD = 1e6
	maxCount   = int64(1e15)
)

func addUp(a, b int64) int64 { return min(a+min(max(b, 0), maxCount), maxCount) }

// Error is the failure that stands once the program has ended: what it said last, or what it was trying to get past when
// its stream was cut.
func (o *Outcome) Error() *Failed {
	if o.Failure == nil && !o.Ended {
		return o.trying
	}
	return o.Failure
}

// Verdict says whether an invocation that ended with this exit code may count as a success, and if not, why in a few
// words. changed says whether the work tree is another than before.
func (o *Outcome) Verdict(exitCode int, changed bool) (why string) {
	switch {
	case exitCode != 0:
		return ""
	case o.Error() != nil:
		return "it returned exit code 0 but says: " + o.Error().Message
	case o.Ended && !o.OK:
		return "it returned exit code 0 but calls its work no success"
	case changed:
		return ""
	case len(o.Denied) > 0:
		return "it returned exit code 0 and changed nothing, after it was denied: " + strings.Join(o.Denied, ", ")
	case !o.Ended:
		return "it returned exit code 0 and changed nothing, and its stream ends without a result"
	case strings.TrimSpace(o.Answer) == "":
		return "it returned exit code 0 with an empty answer and changed nothing"
	}
	return ""
}
