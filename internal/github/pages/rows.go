package pages

import (
	"time"
)

// AttemptLine is one row in a table of attempts.
type AttemptLine struct {
	Number int
	Stage  string // stage at the end of the attempt
	Reason string // from the fixed list of reasons; "" if the attempt succeeded or is still running
	Cause  string // one line
	Then   string // Retake's reaction
	At     time.Time
}

// Earlier returns the number of attempts before this one.
func (a AttemptLine) Earlier() int { return max(0, a.Number-1) }

// ProgressView is the content of the progress comment. Retake edits the comment only if its text changes, so a field
// must not change merely because time passes.
type ProgressView struct {
	State     string    // state of the task
	Attempt   int       // 0 before the first attempt
	Validates bool      // the current or next attempt only validates the work
	Review    int       // pull request in review, or 0
	PutOff    time.Time // for Parked: when the task continues, or zero if unknown
	Note      string
	Incident  string        // key of the outage issue that blocks the task, if any
	Commanded string        // the operator's last command and name, if any
	Attempts  []AttemptLine // finished attempts
}

// CheckLine is one of Retake's checks that passed.
type CheckLine struct {
	Stage   string
	Command []string // argument vector
	Took    time.Duration
}

// AnswerLine is a person's answer to a question, or another comment.
type AnswerLine struct {
	By   string // login
	At   time.Time
	Text string
}

// UsageLine is the cost of the work. Pages omit zero fields.
type UsageLine struct {
	Attempts          int
	Tokens, PaidCalls int64
	CostUSD           float64
}

// StateBlocked is the state of a task waiting for an answer.
const StateBlocked = "Blocked"

// AskedLine is a file that people should read before they check out the branch.
type AskedLine struct{ Path, Why string }
