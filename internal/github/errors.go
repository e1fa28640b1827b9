package github

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	gh "github.com/google/go-github/v60/github"

	"retake/internal/github/gate"
)

// ErrWritesDisabled is returned by everything that would change something on GitHub while writes are off.
var ErrWritesDisabled = errors.New("github: writes are disabled: set github.writes = true to let Retake change issues")

// ErrNotSent is wrapped by the errors of an Options.Transport that has not sent the request: it says nothing of GitHub.
var ErrNotSent = errors.New("github: not sent")

// Kind is what a caller can do about an error.
type Kind string

// The closed list of kinds.
const (
	KindRateLimited  Kind = "rate_limited" // wait until Error.Until
	KindTransient    Kind = "transient"    // the same call may succeed later: network, 5xx, an unreadable answer
	KindPermanent    Kind = "permanent"    // the same call will fail again: 4xx
	KindNotFound     Kind = "not_found"    // 404, 410, or transferred elsewhere (Error.MovedTo)
	KindUnauthorized Kind = "unauthorized" // 401: the credential is wrong or expired
)

// Error is what every method returns for a call that GitHub, the network or the gate refused.
type Error struct {
	Kind    Kind
	Status  int       // HTTP status; 0 when there was no answer
	Until   time.Time // rate_limited only: no call for Resource before this time
	MovedTo string    // not_found only: "owner/repo#n" if the issue was transferred there
	// Resource of the gate that is shut; rate_limited only.
	Resource string
	Message  string // GitHub's own message, or ours, one line
	Op       string // "GET /repos/acme/widgets/issues"; empty for what no single request caused
	Err      error  // cause, if any
	Doubtful bool   // transient: it is about this request alone, and no sign that GitHub fails
}

func (e *Error) Error() string { return "github: " + string(e.Kind) + e.text() }

// Reserved reports whether the resource is closed only to keep a reserve for escalations.
func (e *Error) Reserved() bool {
	_, reserved := gate.CutReserved(e.Resource)
	return reserved
}

// Detail is what was seen, without how we call it.
func (e *Error) Detail() string { return strings.TrimPrefix(e.text(), ": ") }

func (e *Error) text() string {
	var b strings.Builder
	if e.Op != "" {
		b.WriteString(": " + e.Op)
	}
	if e.Status != 0 {
		fmt.Fprintf(&b, ": status %d", e.Status)
	}
	if e.Message != "" {
		b.WriteString(": " + e.Message)
	}
	if e.MovedTo != "" {
		b.WriteString(": moved to " + e.MovedTo)
	}
	if !e.Until.IsZero() {
		b.WriteString(": closed until " + e.Until.UTC().Format(time.RFC3339))
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// detail is the *Error of err, an empty one if there is none.
func detail(err error) *Error {
	e := &Error{}
	errors.As(err, &e)
	return e
}

func kindOf(err error) Kind  { return detail(err).Kind }
func statusOf(err error) int { return detail(err).Status }

// isGone reports a thing that does not exist, or no longer.
func isGone(err error) bool { return kindOf(err) == KindNotFound }

// unlessGone is normalize where nothing needs doing to what does not exist.
func unlessGone(err error) error {
	if err = normalize(err); isGone(err) {
		return nil
	}
	return err
}

// normalize turns whatever go-github returned into an *Error or ErrWritesDisabled; nil stays nil. What is not ours came
// from a decoder or the network below us and may be gone next time.
func normalize(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, ErrWritesDisabled) {
		return ErrWritesDisabled
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Kind: KindTransient, Message: "no usable answer", Err: err}
}

func transient(message string, err error) *Error {
	return &Error{Kind: KindTransient, Message: message, Err: err}
}

func permanent(format string, args ...any) *Error {
	return &Error{Kind: KindPermanent, Message: fmt.Sprintf(format, args...)}
}

// notAdmitted turns an error of the gate into an *Error.
func notAdmitted(err error) *Error {
	if refused, ok := errors.AsType[*gate.Refused](err); ok {
		return &Error{
			Kind: KindRateLimited, Resource: refused.Resource, Until: refused.Until, Message: refused.Why,
		}
	}
	return &Error{Kind: KindTransient, Message: "given up while waiting", Err: err}
}

// kindOfStatus classifies a status >= 300 that is neither a redirect nor a limit.
func kindOfStatus(status int) Kind {
	switch status {
	case http.StatusUnauthorized:
		return KindUnauthorized
	case http.StatusNotFound, http.StatusGone:
		return KindNotFound
	case http.StatusRequestTimeout, http.StatusTooEarly:
		return KindTransient
	}
	if status >= 500 {
		return KindTransient
	}
	return KindPermanent
}

// messageLimit bounds the text of an answer that goes into errors and logs, in characters.
const messageLimit = 500

// readComplaint reads the body of an error; a body that is no JSON (a proxy's page) gives an empty one.
func readComplaint(body []byte) (c gh.ErrorResponse) {
	if json.Unmarshal(body, &c) != nil {
		return gh.ErrorResponse{}
	}
	return c
}

// complaintText is a complaint on one line.
func complaintText(c gh.ErrorResponse, limit int) string {
	parts := []string{c.Message}
	for _, e := range c.Errors {
		parts = append(parts, cmp.Or(e.Message, e.Field+" "+e.Code))
	}
	return clip(strings.Join(strings.Fields(plain(strings.Join(parts, "; "))), " "), limit)
}
