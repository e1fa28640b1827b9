package tracker

import (
	"fmt"
	"sync/atomic"
	"time"

	"retake/internal/github/api"
)

// Labels holds the names of the four labels that show an issue's state. The package ignores case, as GitHub does.
type Labels struct{ Task, Claimed, Blocked, Review string }

// Reader reads issues, their comments and their label histories. It also checks authors' rights.
type Reader struct {
	conn    *api.Conn
	Fleet   string
	Labels  Labels
	trusted []string              // author associations whose markers count, in addition to our account
	rights  api.Memory[right]     // by repository and login
	lost    api.Memory[api.Doubt] // issues for which GitHub answered "not found"
	former  atomic.Pointer[formerLabels]
	offers  atomic.Pointer[map[string]bool] // former task labels
}

// Writer changes the labels of issues and writes our comments.
type Writer struct {
	conn      *api.Conn
	read      *Reader
	restUntil atomic.Pointer[time.Time] // use only REST before this time, because GraphQL has failed
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
