package github

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"
)

// ErrWritesDisabled is returned by everything that would change something on GitHub while writes are off.
var ErrWritesDisabled = errors.New("github: writes are disabled: set github.writes = true to let Retake change issues")

// Kind says what a caller can do about an error.
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
	// Resource is github.read or github.write; rate_limited only.
	Resource string
	Message  string // GitHub's own message, or ours, one line
	Op       string // "GET /repos/acme/widgets/issues"; empty for what no single request caused
	Err      error  // cause, if any
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("github: ")
	b.WriteString(string(e.Kind))
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

// kindOf reports the kind of err, or "" if it is not an *Error.
func kindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}

// normal turns whatever go-github returned into an *Error or ErrWritesDisabled; nil stays nil. What is not ours came
// from a decoder or the network below us and may be gone next time.
func normal(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, ErrWritesDisabled) {
		return ErrWritesDisabled
	}
	var e *Error
	if errors.As(err, &e) {
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

// cancelled is the error of a wait that its context ended.
func cancelled(ctx context.Context) *Error {
	return &Error{Kind: KindTransient, Message: "given up while waiting", Err: context.Cause(ctx)}
}

// kinds maps the statuses that do not follow from their hundreds.
var kinds = map[int]Kind{
	http.StatusUnauthorized:   KindUnauthorized,
	http.StatusNotFound:       KindNotFound,
	http.StatusGone:           KindNotFound,
	http.StatusRequestTimeout: KindTransient,
	http.StatusTooEarly:       KindTransient,
}

// kindOfStatus classifies a status >= 400 that is not a limit.
func kindOfStatus(status int) Kind {
	if k, ok := kinds[status]; ok {
		return k
	}
	if status >= 500 {
		return KindTransient
	}
	return KindPermanent
}

// complaint is the body of GitHub's errors.
type complaint struct {
	Message       string `json:"message"`
	Documentation string `json:"documentation_url"`
	Errors        []any  `json:"errors"`
}

// messageLimit bounds the text of an answer that goes into errors and logs, in bytes.
const messageLimit = 500

// readComplaint reads the body of an error; a body that is no JSON (a proxy's page) gives an empty complaint.
func readComplaint(body []byte) complaint {
	var c complaint
	if json.Unmarshal(body, &c) != nil {
		return complaint{}
	}
	return c
}

func (c complaint) text() string {
	parts := []string{c.Message}
	for _, e := range c.Errors {
		switch e := e.(type) {
		case string:
			parts = append(parts, e)
		case map[string]any:
			if m, ok := e["message"].(string); ok {
				parts = append(parts, m)
			} else {
				parts = append(parts, fmt.Sprint(e["field"], " ", e["code"]))
			}
		}
	}
	return oneLine(strings.Join(parts, "; "), messageLimit)
}

// oneLine makes s one line without control characters and at most limit bytes.
func oneLine(s string, limit int) string {
	s = strings.Join(strings.Fields(plain(s)), " ")
	if len(s) <= limit {
		return s
	}
	cut := limit - len("…")
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
