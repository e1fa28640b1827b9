package agent

import (
	"strings"

	"retake/internal/recovery/plaintext"
)

// Outcome is the result of invoking an agent, accumulated from its events.
type Outcome struct {
	Answer     string
	Ended      bool      // set if a Result arrived
	OK         bool      // the Result was a success
	Failure    *Failure  // the current error, or nil
	RateLimit  RateLimit // the latest rate limit
	RateLimits int       // the number of reported rate limits
	Denials    []string  // at most maxDenials
	EndsWith   string    // type of the event that ends a complete stream, or ""

	parts, total Usage
	hasTotal     bool // total is set
	spoke        bool // an event arrived
	retrying     *Failure
}

const maxDenials = 8

// Add records the next event.
func (o *Outcome) Add(e Event) {
	o.spoke = true
	switch e := e.(type) {
	case UsageReport:
		if e.Total {
			o.total, o.hasTotal = e.Usage, true
		} else {
			o.parts = o.parts.Plus(e.Usage)
		}
		if e.Tokens > 0 {
			o.retrying = nil // the model answered, so the error is resolved
		}
	case RateLimit:
		o.RateLimit, o.RateLimits = e, o.RateLimits+1
	case Failure:
		o.addFailure(e)
	case Denial:
		if len(o.Denials) < maxDenials {
			o.Denials = append(o.Denials, e.What)
		}
	case Resumed:
		o.Ended, o.OK = false, false
	case Result:
		o.Ended, o.OK = true, e.OK
		if e.OK {
			o.Answer, o.Failure, o.retrying = e.Text, nil, nil
		}
	}
}

// addFailure records an error. It keeps details of an earlier report of the same error. An error that the agent
// retries does not replace the current error.
func (o *Outcome) addFailure(e Failure) {
	if e.Retryable {
		o.retrying = &e
		if o.Failure != nil && !o.OK { // the other stream may have reported the same error first
			o.Failure.fillFrom(e)
		}
		return
	}
	if before := o.Failure; before != nil && (e.Message == "" || strings.Contains(before.Message, e.Message)) {
		e.Message = before.Message
		e.fillFrom(*before)
	}
	if o.retrying != nil {
		e.fillFrom(*o.retrying)
	}
	o.Failure = &e
}

// fillFrom fills the empty fields of e from b. If both have a status and the statuses differ, the errors are unrelated,
// and fillFrom does nothing.
func (e *Failure) fillFrom(b Failure) {
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
	if e.Names == nil {
		e.Names = b.Names
	}
}

// Usage returns the reported total, or the sum of the parts.
func (o *Outcome) Usage() Usage {
	if o.hasTotal {
		return o.total
	}
	return o.parts
}

// Plus returns the sum of u and v. It ignores negative counts in v, and limits each sum to a plausible maximum.
func (u Usage) Plus(v Usage) Usage {
	return Usage{
		Tokens: boundedSum(u.Tokens, v.Tokens), CostUSD: min(u.CostUSD+max(v.CostUSD, 0), maxCostUSD),
		PaidCalls: boundedSum(u.PaidCalls, v.PaidCalls), CacheHits: boundedSum(u.CacheHits, v.CacheHits),
	}
}

// Upper limits of plausible usage. No attempt costs a million dollars or reads 10^15 tokens.
const (
	maxCostUSD = 1e6
	maxCount   = int64(1e15)
)

func boundedSum(a, b int64) int64 { return min(a+min(max(b, 0), maxCount), maxCount) }

// Spoke reports whether the stream had any event.
func (o *Outcome) Spoke() bool { return o.spoke }

// FinalFailure returns the current error, or nil. If the stream ended without a result, it may also return the error of
// the request that the agent was retrying.
func (o *Outcome) FinalFailure() *Failure {
	if o.Failure == nil && !o.Ended {
		return o.retrying
	}
	return o.Failure
}

// Work is the state of the work after an invocation.
type Work int

// The kinds of work.
const (
	NewWork   Work = iota // the invocation changed files, or may have
	OlderWork             // the invocation did not change files, but earlier work may exist
	NoWork                // no work exists
)

// ChangedNothing describes an invocation that reported success without changing a file.
const ChangedNothing = "it returned exit code 0 and changed nothing"

// Parts of the texts that Contradiction returns. The classifier uses them to recognise agents that gave no reason.
const (
	Incomplete = "its stream ends without"
	Silent     = "said nothing"
)

// LastWords returns the answer as text for people, without control sequences or surrounding space.
func (o *Outcome) LastWords() string { return strings.TrimSpace(plaintext.Clean(o.Answer)) }

// Contradiction returns why an invocation with exit code 0 was not a success, or "". An answer that consists only of
// terminal control sequences counts as empty.
func (o *Outcome) Contradiction(exitCode int, work Work) (why string) {
	switch {
	case exitCode != 0:
		return ""
	case o.FinalFailure() != nil:
		return "it returned exit code 0 but says: " + o.FinalFailure().Message
	case o.Ended && !o.OK:
		return "it returned exit code 0 but reports that its work failed"
	case work != NewWork && len(o.Denials) > 0:
		return ChangedNothing + ", after being denied: " + strings.Join(o.Denials, ", ")
	case !o.Ended && o.EndsWith != "":
		return "it returned exit code 0, but " + Incomplete + " `" + o.EndsWith + "`: it exited before its work was " +
			"done"
	case work == NewWork:
		return ""
	case !o.Ended:
		return ChangedNothing + ", and " + Incomplete + " a result"
	case o.LastWords() == "":
		return ChangedNothing + ", and " + Silent
	case work == NoWork:
		return ChangedNothing
	}
	return ""
}
