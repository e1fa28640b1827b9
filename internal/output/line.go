package output

import (
	"errors"

	"retake/internal/bus/wire"
)

// Line is a redacted line of an attempt's output. A line longer than 8 KiB is split into parts.
type Line struct {
	At        wire.Time `json:"at"` // when the runtime received it, or else when the director read it
	AttemptID string    `json:"attempt_id"`
	Attempt   int       `json:"attempt"`
	Stage     string    `json:"stage,omitempty"` // empty before the first stage, or if unknown
	Stream    string    `json:"stream"`          // stdout or stderr; empty with Skipped
	Text      string    `json:"text"`            // without its line break; may contain control characters

	// Skipped counts the lines that are missing at this point, and SkippedBytes counts their bytes. They exceeded the
	// storage limits, or this reader was too slow. A Line with Skipped has no text.
	Skipped      int64 `json:"skipped_lines,omitempty"`
	SkippedBytes int64 `json:"skipped_bytes,omitempty"`
}

// Filter selects lines.
type Filter struct {
	Attempt int    // 0 selects the newest attempt, and with Follow also later ones
	Stage   string // case-insensitive; empty selects all
	Last    int    // read only this many of the newest existing lines; 0 means all
	Follow  bool   // wait for more lines until the attempt ends, or until the task ends if Attempt is 0

	Idle func() // called before each wait for more lines, so that a reader can flush; may be nil
}

// Attempt is an attempt with stored output.
type Attempt struct {
	Issue string    `json:"issue"` // owner/repo#n
	ID    string    `json:"attempt_id"`
	N     int       `json:"attempt"` // counts from 1; a later claim can reuse a number
	Began wire.Time `json:"began"`
	Live  bool      `json:"live"` // the attempt might still print
}

// Errors for output that the store does not have.
var (
	ErrNoTask    = errors.New("output: no output is stored for this issue")
	ErrNoAttempt = errors.New("output: no output is stored for this attempt")
)

// Stored is the finished output of an attempt.
type Stored struct {
	Path      string `json:"path"`      // below the data directory
	SHA256    string `json:"sha256"`    // checksum of the file, in hexadecimal
	Bytes     int64  `json:"bytes"`     // size of the file
	Truncated bool   `json:"truncated"` // some output is missing
}
