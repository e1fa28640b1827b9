package recovery

import "time"

// Evidence holds the facts about one failure. Every field is optional. The zero value is a failure without evidence.
// Text may hold any bytes.
type Evidence struct {
	// Known is a fact observed by the director (an OOM flag, a missing image, a worker that disappeared without a
	// report). It decides before anything else. KnownCause describes it to people in one line.
	Known      Reason
	KnownCause string

	Stage      string // CODE, VALIDATE, …
	Tool       string // base name of the program that ran, or of a known agent CLI
	Provider   string
	ExitCode   *int
	Unended    bool              // the program had to be ended, so there is no exit code
	Signal     string            // "SIGKILL", …
	OOM        bool              // the stage's own memory evidence (flag, event or cgroup count)
	HTTPStatus int               // 0 if unknown
	Headers    map[string]string // lower-case names
	Message    string            // the worker's one line
	Stdout     string            // tails, oldest bytes cut
	Stderr     string
	Question   string        // an agent's question to a person; makes the failure NeedsHuman
	RetryAfter time.Duration // from the worker; 0 if unknown
	At         time.Time     // when it was observed; without it, dates and resets in headers and text are not read
	Assertion  Assertion
}

// Assertion is the reporter's classification of the failure. The evidence outranks its ErrorType.
type Assertion struct {
	ErrorType                  string
	Transient, Retry, Escalate bool
	// Explicit means that the reporter decided the flags. Our worker derives them from ErrorType.
	Explicit bool `json:",omitempty"`
}

// Differs reports whether Assert would set other flags for ErrorType.
func (a Assertion) Differs() bool {
	r, _ := ReasonOf(a.ErrorType)
	derived := Assert(r)
	return a.Transient != derived.Transient || a.Retry != derived.Retry || a.Escalate != derived.Escalate
}

// Disagrees reports whether explicit flags contradict the policy's choice. again means another attempt.
func (a Assertion) Disagrees(again bool) bool {
	return a.Explicit && (a.Escalate && again || a.Retry != again)
}

// Now is the stated wait if the next request is allowed at once. A wait of 0 means that the answer did not state any.
const Now = time.Millisecond

// LongestWait bounds every stated wait. The limits of providers last at most a month.
const LongestWait = 31 * 24 * time.Hour

// Finding is the result of classification.
type Finding struct {
	Reason     Reason        `json:"reason"`
	Cause      string        `json:"cause"`                 // one line that a person would quote, at most 300 bytes
	RetryAfter time.Duration `json:"retry_after,omitempty"` // stated wait, or 0; never negative
	Rule       string        `json:"rule"`                  // id of the rule that decided
	Confidence float64       `json:"confidence"`            // 0 … 1
	// "sig:" + 16 hex digits; equal for the same logical failure
	Signature string `json:"signature"`
}
