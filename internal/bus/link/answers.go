package link

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Time limits for requests.
const (
	AnswerTimeout = 5 * time.Second  // limit for a request without a deadline in its context
	StoreTimeout  = 4 * time.Second  // limit for storing a message; leaves time to answer within AnswerTimeout
	ReadTimeout   = 3 * time.Second  // limit for one short read from the server
	readFor       = 10 * time.Second // time after which Answered stops retrying a read
)

var (
	// ErrNoAnswer means that the other side did not answer in time, or is not connected. It is transient.
	ErrNoAnswer = errors.New("bus: no answer")
	// ErrNotLeading means that another director may lead by now. The operation did not run, because it could have
	// overwritten that director's work.
	ErrNotLeading = errors.New("bus: this director no longer leads")
)

// noAnswerErrors are the errors that the NATS client returns for an unanswered request.
var noAnswerErrors = []error{
	context.DeadlineExceeded, context.Canceled, nats.ErrTimeout, nats.ErrNoResponders, nats.ErrConnectionClosed,
	nats.ErrDisconnected, nats.ErrReconnectBufExceeded, nats.ErrConnectionReconnecting, nats.ErrStaleConnection,
	jetstream.ErrNoStreamResponse, nats.ErrInvalidConnection,
}

// Leads reports whether this process leads now, and so may change shared data. Nil means always.
type Leads func() bool

// MayChange returns ErrNotLeading if this process may not change shared data. Call it immediately before each overwrite
// or deletion that is not a compare-and-set.
func (l Leads) MayChange() error {
	if l != nil && !l() {
		return ErrNotLeading
	}
	return nil
}

// WithDeadline limits a context without a deadline to AnswerTimeout.
func WithDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, AnswerTimeout)
}

// NoAnswer wraps the NATS errors for a missing answer in ErrNoAnswer. It returns nil for nil.
func NoAnswer(err error) error {
	switch {
	case err == nil:
		return nil
	case Temporary(err):
		return fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	return fmt.Errorf("bus: %w", err)
}

// SamePrefix is advice that callers pass to NotCreated for a stream with subjects.
const SamePrefix = ", and does every fleet there have a different agent_bus.prefix"

// NotCreated adds advice to the error of a stream or bucket that could not be created. It does not add advice if the
// server did not answer or is electing a leader, because a retry may succeed.
func NotCreated(err error, replicas int, more string) error {
	if Temporary(err) || Electing(err) {
		return NoAnswer(err)
	}
	return fmt.Errorf("%w: does the server have JetStream, enough space and %d replica(s)%s?", err, replicas, more)
}

// Temporary reports whether an error means that the server did not answer. The server may still have stored the
// message.
func Temporary(err error) bool {
	return slices.ContainsFunc(noAnswerErrors, func(known error) bool { return errors.Is(err, known) })
}

// JetStream's error codes for a cluster without a leader, from the server's errors.json.
const (
	codeClusterUnavailable = 10008
	codeNotLeader          = 10009
)

// Electing reports whether the server cluster is electing a leader.
func Electing(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (api.ErrorCode == codeClusterUnavailable || api.ErrorCode == codeNotLeader)
}

// Refused reports whether the server rejected a compare-and-set because another process wrote first.
func Refused(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok &&
		(api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
			api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// Outage reports whether the server did not answer, or answered that it is unavailable.
func Outage(err error) bool {
	if Temporary(err) {
		return true
	}
	e, ok := errors.AsType[jetstream.JetStreamError](err)
	return ok && e.APIError() != nil && e.APIError().Code >= http.StatusInternalServerError
}

// Answered retries a read while the server does not answer, because the connection may come back or the cluster may be
// electing a leader. If Answered fails, the data may or may not exist.
func Answered[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	for began, failures := time.Now(), 0; ; failures++ {
		try, cancel := context.WithTimeout(ctx, ReadTimeout)
		answer, err := ask(try)
		cancel()
		if !Outage(err) || time.Since(began) > readFor || !Pause(ctx, Backoff(failures)) {
			return answer, err
		}
	}
}
