package api

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
	"retake/internal/github/prose"
)

// ErrWritesDisabled is returned for every change to GitHub while writes are disabled.
var ErrWritesDisabled = errors.New("github: writes are disabled: set github.writes = true to let Retake change issues")

// ErrNotSent is wrapped by errors from an Options.Transport that did not send the request. GitHub is not the cause.
var ErrNotSent = errors.New("github: not sent")

// Kind determines how a caller reacts to an Error.
type Kind string

// All kinds.
const (
	KindRateLimited  Kind = "rate_limited" // wait until Error.Until
	KindTransient    Kind = "transient"    // the same call may succeed later: network, 5xx, an unreadable answer
	KindPermanent    Kind = "permanent"    // the same call will fail again: 4xx
	KindNotFound     Kind = "not_found"    // 404, 410, or transferred elsewhere (Error.MovedTo)
	KindUnauthorized Kind = "unauthorized" // 401: the credential is wrong or expired
)

// Error is the error of a request that GitHub, the network or the gate refused.
type Error struct {
	Kind    Kind
	Status  int       // HTTP status; 0 without an answer
	Until   time.Time // rate_limited only: the gate refuses calls for Resource before this time
	MovedTo string    // not_found only: "owner/repo#n" if the issue was transferred there
	// Resource is the closed resource of the gate. It is set only for rate_limited.
	Resource string
	Message  string // message from GitHub or this package, on one line
	Op       string // such as "GET /repos/acme/widgets/issues"; empty if no single request failed
	Err      error  // cause, if any
	Doubtful bool   // transient only; the cause is probably this request, not an outage of GitHub
	account  bool   // GitHub refuses the account as a whole
}

func (e *Error) Error() string { return "github: " + string(e.Kind) + e.text() }

// Reserved reports whether the resource is closed only to reserve requests for escalations.
func (e *Error) Reserved() bool {
	_, reserved := gate.CutReserved(e.Resource)
	return reserved
}

// Detail returns the error's text without its kind.
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

// Detail returns the *Error in err, or an empty one.
func Detail(err error) *Error {
	e := &Error{}
	errors.As(err, &e)
	return e
}

// KindOf returns the kind of the *Error in err, or "" without one.
func KindOf(err error) Kind { return Detail(err).Kind }

// StatusOf returns the HTTP status of the *Error in err, or 0.
func StatusOf(err error) int { return Detail(err).Status }

// IsGone reports whether err means that the object does not exist.
func IsGone(err error) bool { return KindOf(err) == KindNotFound }

// UnlessGone is Normalize for changes to an object that may have been deleted. It returns nil if the object does not
// exist.
func UnlessGone(err error) error {
	if err = Normalize(err); IsGone(err) {
		return nil
	}
	return err
}

// Normalize turns an error from go-github into an *Error or ErrWritesDisabled. Decoding and network errors become
// transient. Normalize(nil) is nil.
func Normalize(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, ErrWritesDisabled) {
		return ErrWritesDisabled
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Kind: KindTransient, Message: "unusable response", Err: err}
}

// Transient returns an error that a later retry may resolve.
func Transient(message string, err error) *Error {
	return &Error{Kind: KindTransient, Message: message, Err: err}
}

// Permanent returns an error that a retry cannot resolve.
func Permanent(format string, args ...any) *Error {
	return &Error{Kind: KindPermanent, Message: fmt.Sprintf(format, args...)}
}

// notAdmitted turns an error from the gate into an *Error.
func notAdmitted(err error) *Error {
	if refused, ok := errors.AsType[*gate.Refused](err); ok {
		return &Error{
			Kind: KindRateLimited, Resource: refused.Resource, Until: refused.Until, Message: refused.Why,
		}
	}
	return &Error{Kind: KindTransient, Message: "the caller stopped waiting", Err: err}
}

// kindOfStatus returns the kind for a status >= 300 other than a redirect or a limit.
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

// MessageLimit is the maximum length of an answer's text in errors and logs, in characters.
const MessageLimit = 500

// readComplaint parses an error's body. It returns an empty response if the body is not JSON, such as an HTML page from
// a proxy.
func readComplaint(body []byte) (c gh.ErrorResponse) {
	if json.Unmarshal(body, &c) != nil {
		return gh.ErrorResponse{}
	}
	return c
}

// complaintText formats a complaint on one line.
func complaintText(c gh.ErrorResponse, limit int) string {
	parts := []string{c.Message}
	for _, e := range c.Errors {
		parts = append(parts, cmp.Or(e.Message, e.Field+" "+e.Code))
	}
	return prose.Clip(strings.Join(strings.Fields(prose.Printable(strings.Join(parts, "; "))), " "), limit)
}

// Accepted returns the error of a write that creates or changes a numbered object. If the answer claims success, but
// the number is missing, the error is transient, because a proxy may have dropped the request.
func Accepted[N int | int64](number N, what string, err error) error {
	if err == nil && number == 0 {
		return Transient(what+" was accepted, but is missing from the response", nil)
	}
	return Normalize(err)
}
