package recovery

import "time"

// Evidence contains all observations about one failure. Every field is optional, and text may contain any bytes.
type Evidence struct {
	// Known is a reason that the director itself observed, such as an OOM kill, a missing image or a worker that
	// disappeared without a report. It overrides all other evidence. KnownCause describes it in one line.
	Known      Reason
	KnownCause string

	Stage      string // CODE, VALIDATE, …
	Tool       string // base name of the program that ran, or of a known agent CLI
	Provider   string
	ExitCode   *int
	Unended    bool              // set if the program was killed, so there is no exit code
	Signal     string            // "SIGKILL", …
	OOM        bool              // set if a flag, event or cgroup count shows that the stage ran out of memory
	HTTPStatus int               // 0 if unknown
	Headers    map[string]string // lower-case names
	Message    string            // one line from the worker
	Stdout     string            // tails of the output
	Stderr     string
	Question   string        // an agent's question to a person, which makes the reason NeedsHuman
	RetryAfter time.Duration // from the worker; 0 if unknown
	At         time.Time     // time of the failure; without it, absolute times in headers and text are ignored
	Assertion  Assertion
}

// Assertion is the reporter's classification of the failure. Evidence takes precedence over its ErrorType.
type Assertion struct {
	ErrorType                  string
	Transient, Retry, Escalate bool
	// Explicit means that the reporter set the flags deliberately. Our own worker derives them from ErrorType.
	Explicit bool `json:",omitempty"`
}

// Differs reports whether Assert would set different flags for ErrorType.
func (a Assertion) Differs() bool {
	r, _ := ReasonOf(a.ErrorType)
	derived := Assert(r)
	return a.Transient != derived.Transient || a.Retry != derived.Retry || a.Escalate != derived.Escalate
}

// Disagrees reports whether explicit flags contradict the policy's choice. again is set if the policy chose another
// attempt.
func (a Assertion) Disagrees(again bool) bool {
	return a.Explicit && (a.Escalate && again || a.Retry != again)
}

// Now represents a stated wait of 0, because a RetryAfter of 0 means that no wait is stated.
const Now = time.Millisecond

// LongestWait limits every stated wait, because no provider's limit lasts longer than a month.
const LongestWait = 31 * 24 * time.Hour

// Finding is the result of classification.
type Finding struct {
	Reason     Reason        `json:"reason"`
	Cause      string        `json:"cause"`                 // the most informative line, at most 300 bytes
	RetryAfter time.Duration `json:"retry_after,omitempty"` // stated wait, or 0; never negative
	Rule       string        `json:"rule"`                  // id of the rule that decided
	Confidence float64       `json:"confidence"`            // 0 … 1
	// Signature is "sig:" and 16 hex digits. Failures that presumably have the same cause share a signature.
	Signature string `json:"signature"`
}
