package output

import (
	"errors"

	"retake/internal/bus/wire"
)

// Line is a line that an attempt printed, redacted. A line that is longer than 8 KiB comes in parts.
type Line struct {
	At        wire.Time `json:"at"` // when the runtime took it; where it does not know, when the director read it
	AttemptID string    `json:"attempt_id"`
	Attempt   int       `json:"attempt"`
	Stage     string    `json:"stage,omitempty"` // empty: before the first, or not known
	Stream    string    `json:"stream"`          // stdout or stderr; empty beside Skipped
	Text      string    `json:"text"`            // without its line break; may have control characters

	// Skipped is how many lines of the attempt are missing here, or SkippedBytes how many bytes: more was
	// printed than is kept, or than this reader took in time. Such a Line has no text.
	Skipped      int64 `json:"skipped_lines,omitempty"`
	SkippedBytes int64 `json:"skipped_bytes,omitempty"`
}

// Filter says which lines are wanted.
type Filter struct {
	Attempt int    // number; 0: the newest, and with Follow all that come after it
	Stage   string // in any case; empty: all
	Last    int    // of what is there already so many lines at most, the newest; 0: all that are kept
	Follow  bool   // wait for more, until the attempt is over, or, if Attempt is 0, the task

	Idle func() // called before each wait for more: whoever collects lines passes them on now; may be nil
}

// Attempt is an attempt whose output is kept.
type Attempt struct {
	Issue string    `json:"issue"` // owner/repo#n
	ID    string    `json:"attempt_id"`
	N     int       `json:"attempt"` // from 1; a number may come again in a later claim
	Began wire.Time `json:"began"`
	Live  bool      `json:"live"` // it may print more
}

// What is asked for is not there.
var (
	ErrNoTask    = errors.New("no output of this issue is kept")
	ErrNoAttempt = errors.New("no output of this attempt is kept")
)

// Stored is the finished output of an attempt.
type Stored struct {
	Path      string `json:"path"`      // below the data directory
	SHA256    string `json:"sha256"`    // of the file, in hexadecimal
	Bytes     int64  `json:"bytes"`     // of the file
	Truncated bool   `json:"truncated"` // not all that it printed is there
}
