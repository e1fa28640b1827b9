package tracker

import (
	"fmt"
	"sync/atomic"
	"time"

	"retake/internal/github/api"
)

// Labels are the four labels that show the state of an issue. Their names are compared without case, as on GitHub.
type Labels struct{ Task, Claimed, Blocked, Review string }

// Reader reads issues, their comments and their labels' history, and checks the rights of authors.
type Reader struct {
	conn    *api.Conn
	Fleet   string
	Labels  Labels
	trusted []string              // author associations whose markers count, in addition to our account
	rights  api.Memory[right]     // by repository and login
	lost    api.Memory[api.Doubt] // issues for which GitHub answered "not found"
	former  atomic.Pointer[formerLabels]
	offers  atomic.Pointer[map[string]bool] // labels that offered work earlier
}

// Writer changes the labels of issues and writes our comments.
type Writer struct {
	conn      *api.Conn
	read      *Reader
	restUntil atomic.Pointer[time.Time] // GraphQL has failed and is not used before this time
}

// New returns a Reader and a Writer. It fails if fleet cannot be part of a marker.
func New(conn *api.Conn, fleet string, labels Labels, trusted []string) (*Reader, *Writer, error) {
	if !api.FleetName.MatchString(fleet) {
		return nil, nil, fmt.Errorf("github: fleet %q: want 1 to 64 letters, digits, dots, dashes or underscores",
			fleet)
	}
	read := &Reader{
		conn: conn, Fleet: fleet, Labels: labels, trusted: trusted,
		rights: api.NewMemory[right](api.Remembered), lost: api.NewMemory[api.Doubt](api.Remembered),
	}
	return read, &Writer{conn: conn, read: read}, nil
}
