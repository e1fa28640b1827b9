package agent

import (
	"strings"

	"retake/internal/recovery/plaintext"
)

// Outcome is what the events of one invocation come to.
type Outcome struct {
	Answer     string
	Ended      bool      // it said its last word
	OK         bool      // and called it a success
	Failure    *Failure  // the error that stands; nil: none
	RateLimit  RateLimit // the last one
	RateLimits int       // how many there were
	Denials    []string  // at most maxDenials

	parts, total Usage
	hasTotal     bool // there is a total
	retrying     *Failure
}

const maxDenials = 8

// Add takes the next event.
func (o *Outcome) Add(e Event) {
	switch e := e.(type) {
	case UsageReport:
		if e.Total {
			o.total, o.hasTotal = e.Usage, true
		} else {
			o.parts = o.parts.Plus(e.Usage)
		}
		if e.Tokens > 0 {
			o.retrying = nil // the model answered: what it was trying to get past is behind it
		}
	case RateLimit:
		o.RateLimit, o.RateLimits = e, o.RateLimits+1
	case Failure:
		o.addFailure(e)
	case Denial:
		if len(o.Denials) < maxDenials {
			o.Denials = append(o.Denials, e.What)
		}
	case Result:
		o.Ended, o.OK = true, e.OK
		if e.OK {
			o.Answer, o.Failure, o.retrying = e.Text, nil, nil
		}
	}
}

// addFailure keeps the error that stands. A later report of the same one
// adds what the earlier lacks and removes nothing.
func (o *Outcome) addFailure(e Failure) {
	if e.Retryable {
		o.retrying = &e
		if o.Failure != nil && !o.OK { // the other stream may have been quicker
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

// fillFrom adds what e lacks, provided that b may be the same error: it has no other status.
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

// Usage is what was consumed: the total if one was stated, else the sum of the parts.
func (o *Outcome) Usage() Usage {
	if o.hasTotal {
		return o.total
	}
	return o.parts
}

// Plus adds, each of them kept from going below zero or past the largest number.
func (u Usage) Plus(v Usage) Usage {
	return Usage{
		Tokens: boundedSum(u.Tokens, v.Tokens), CostUSD: min(u.CostUSD+max(v.CostUSD, 0), maxCostUSD),
		PaidCalls: boundedSum(u.PaidCalls, v.PaidCalls), CacheHits: boundedSum(u.CacheHits, v.CacheHits),
	}
}

// The most that is believed: no attempt costs a million dollars or reads 10^15 tokens.
const (
	maxCostUSD = 1e6
	maxCount   = int64(1e15)
)

func boundedSum(a, b int64) int64 { return min(a+min(max(b, 0), maxCount), maxCount) }

// FinalFailure is the failure that stands once the program has ended: the last one, or the one that it was
// retrying when its stream was cut.
func (o *Outcome) FinalFailure() *Failure {
	if o.Failure == nil && !o.Ended {
		return o.retrying
	}
	return o.Failure
}

// Work is what there is to deliver when an invocation has ended.
type Work int

// The kinds of work.
const (
	NewWork   Work = iota // the invocation changed some, or nobody knows
	OlderWork             // it changed none, but there may be some from before
	NoWork                // none at all
)

// ChangedNothing says of an invocation that it has nothing to show for its exit code.
const ChangedNothing = "it returned exit code 0 and changed nothing"

// LastWords is the answer as text for people: no terminal's control sequences, no space around it.
func (o *Outcome) LastWords() string { return strings.TrimSpace(plaintext.Clean(o.Answer)) }

// Contradiction returns what speaks against a success although the exit code is 0; empty: nothing does. An
// answer of nothing but a terminal's control sequences is empty.
func (o *Outcome) Contradiction(exitCode int, work Work) (why string) {
	switch {
	case exitCode != 0:
		return ""
	case o.FinalFailure() != nil:
		return "it returned exit code 0 but says: " + o.FinalFailure().Message
	case o.Ended && !o.OK:
		return "it returned exit code 0 but calls its work no success"
	case work == NewWork:
		return ""
	case len(o.Denials) > 0:
		return ChangedNothing + ", after it was denied: " + strings.Join(o.Denials, ", ")
	case !o.Ended:
		return ChangedNothing + ", and its stream ends without a result"
	case o.LastWords() == "":
		return "it returned exit code 0 with an empty answer and changed nothing"
	case work == NoWork:
		return ChangedNothing
	}
	return ""
}
