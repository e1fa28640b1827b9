package pages

import (
	"time"
)

// AttemptLine is one attempt in a table that people read.
type AttemptLine struct {
	Number int
	Stage  string // where it ended
	Reason string // of the closed list; "" if it succeeded or still runs
	Cause  string // one line
	Then   string // what Retake did next
	At     time.Time
}

// Earlier is how many attempts came before.
func (a AttemptLine) Earlier() int { return max(0, a.Number-1) }

// ProgressView is what the progress comment shows. The same view gives the same text, and the same text is not
// sent again: put nothing into it that changes with time alone.
type ProgressView struct {
	State     string    // of the task
	Attempt   int       // 0: none yet
	Validates bool      // the attempt under way, or the next one, only validates the work
	Review    int       // the pull request that is in review; 0: none
	PutOff    time.Time // Parked: until when; zero: not known
	Note      string
	Incident  string        // key of the issue about the outage that the task waits for; empty: none
	Commanded string        // what the operator last commanded, and who; empty: nothing
	Attempts  []AttemptLine // finished ones
}

// CheckLine is a check of ours that passed.
type CheckLine struct {
	Stage   string
	Command []string // argument vector
	Took    time.Duration
}

// AnswerLine is what a person said to a question, or unasked.
type AnswerLine struct {
	By   string // login
	At   time.Time
	Text string
}

// UsageLine is what the work has used. What is 0 is not shown.
type UsageLine struct {
	Attempts          int
	Tokens, PaidCalls int64
	CostUSD           float64
}

// StateBlocked is the state of a task that waits for an answer.
const StateBlocked = "Blocked"
