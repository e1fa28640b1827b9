package wire

import (
	"errors"
	"fmt"
)

// Cause is the reason a message was rejected. The list is closed, because a cause is also the last token of a dead
// letter's subject, a header and a metric label.
type Cause string

// The causes. Causes explains each of them.
const (
	CauseOversized      Cause = "oversized"
	CauseNotJSON        Cause = "not_json"
	CauseNotAnEnvelope  Cause = "not_an_envelope"
	CauseUnknownVersion Cause = "unknown_version"
	CauseUnknownType    Cause = "unknown_type"
	CauseMissingField   Cause = "missing_field"
	CauseWrongType      Cause = "wrong_type"
	CauseBadValue       Cause = "bad_value"
	CauseForeignSender  Cause = "foreign_sender"
	CauseWrongSubject   Cause = "wrong_subject"
	CauseUnsigned       Cause = "unsigned"
	CauseNoAttempt      Cause = "no_attempt"
)

// CauseRow explains one cause to the author of a message.
type CauseRow struct {
	Cause   Cause
	Meaning string
	Remedy  string
}

// Causes lists every cause once, in the order in which a message is checked.
func Causes() []CauseRow {
	return []CauseRow{
		{
			CauseOversized, "the message is longer than 1 MiB, the maximum `agent_bus.max_message_bytes`",
			"cut tails before sending, oldest bytes first",
		},
		{CauseNotJSON, "the message is not a single JSON value", "send exactly one JSON object in UTF-8"},
		{
			CauseNotAnEnvelope, "the JSON is neither an envelope nor a bare `worker_error` object",
			"wrap the payload in `" + SchemaVersion + "`",
		},
		{
			CauseUnknownVersion, "the envelope or the message has another major version",
			"update the sender, or the director, so that the major versions agree",
		},
		{CauseUnknownType, "the `message_type` is not in the message table", "use a type from the table"},
		{CauseMissingField, "a required field is missing or null", "add the field named in the detail"},
		{
			CauseWrongType, "the JSON type of a field differs from the schema",
			"correct the field named in the detail",
		},
		{CauseBadValue, "a field is out of range, or is an empty string", "correct the field named in the detail"},
		{
			CauseForeignSender, "the worker in the body is not the worker in the subject",
			"publish on the subject of the worker in the body",
		},
		{
			CauseWrongSubject, "the message type does not belong on this subject",
			"publish on the subject listed in the message table",
		},
		{
			CauseUnsigned, "the attempt's signature is missing or does not match the message",
			"only a worker reports results; a person reports a `worker_error` as `operator`, without a signature",
		},
		{
			CauseNoAttempt, "a person's report is about a worker without a running attempt",
			"use a `WORKER` listed by `director status`",
		},
	}
}

// Malformed is the error for a message that Decode rejects, or that Encode refuses to write.
type Malformed struct {
	Cause Cause
	// Detail contains the field name, the expected value and the beginning of the actual value.
	Detail string
}

// Error implements error.
func (m *Malformed) Error() string { return "wire: " + string(m.Cause) + ": " + m.Detail }

func malformed(c Cause, format string, args ...any) *Malformed {
	return &Malformed{Cause: c, Detail: fmt.Sprintf(format, args...)}
}

// Reason returns the *Malformed that err wraps, or creates one from err.
func Reason(err error) *Malformed {
	if m, ok := errors.AsType[*Malformed](err); ok {
		return m
	}
	return &Malformed{Cause: CauseNotAnEnvelope, Detail: err.Error()}
}
