package bus

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"retake/internal/bus/wire"
)

// Headers of a dead letter.
const (
	HeaderCause     = "Retake-Cause"
	HeaderDetail    = "Retake-Detail"
	HeaderSubject   = "Retake-Origin-Subject"
	HeaderStreamSeq = "Retake-Origin-Sequence" // in the reports stream; absent for core messages
	// the length of the whole message, if the letter holds only its beginning
	HeaderBytes = "Retake-Origin-Bytes"
)

// Rate of letters that are kept per cause, and how many are kept of one sender; what is over that is only
// counted. One faulty worker must fill neither disk nor log, nor leave no room for another's.
const (
	deadPerSecond = 10
	deadBurst     = 50

	deadPerSender = 20
	deadWindow    = time.Hour
)

// inStream is the sender of what was stored before it was read: the operator writes into the stream directly.
const inStream = ""

// DeadLetterCount is how many messages of one cause could not be read since the start.
type DeadLetterCount struct {
	Cause   wire.Cause
	Total   uint64
	Dropped uint64 // of Total: over a bound, or not storable; counted only
}

// deadLetters keeps what cannot be read.
type deadLetters struct {
	nc       *nats.Conn
	js       jetstream.JetStream
	subjects wire.Subjects
	maxBytes int
	log      *zap.Logger

	limits map[wire.Cause]*rate.Limiter

	mu      sync.Mutex
	counts  map[wire.Cause]*DeadLetterCount
	senders map[string]*sentLetters // admitted workers, and inStream
}

// sentLetters are those of one sender that were kept in the last window.
type sentLetters struct {
	since time.Time
	kept  int
}

func newDeadLetters(nc *nats.Conn, js jetstream.JetStream, s wire.Subjects, maxBytes int,
	log *zap.Logger,
) *deadLetters {
	d := &deadLetters{
		nc: nc, js: js, subjects: s, maxBytes: maxBytes, log: log, limits: map[wire.Cause]*rate.Limiter{},
		counts: map[wire.Cause]*DeadLetterCount{}, senders: map[string]*sentLetters{},
	}
	for _, row := range wire.Causes() {
		d.counts[row.Cause], d.limits[row.Cause] = &DeadLetterCount{Cause: row.Cause}, rate.NewLimiter(deadPerSecond,
			deadBurst)
	}
	return d
}

// DeadLetters returns the counters, one per cause, in the order of wire.Causes.
func (b *Bus) DeadLetters() []DeadLetterCount {
	b.dead.mu.Lock()
	defer b.dead.mu.Unlock()
	var all []DeadLetterCount
	for _, row := range wire.Causes() {
		all = append(all, *b.dead.counts[row.Cause])
	}
	return all
}

// hasRoom reports whether another letter of the sender's may be kept.
func (d *deadLetters) hasRoom(sender string, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.senders[sender]
	if s == nil || now.Sub(s.since) >= deadWindow {
		s = &sentLetters{since: now}
		d.senders[sender] = s
	}
	s.kept++
	return s.kept <= deadPerSender
}

// forget lets go of a sender that sends no more.
func (d *deadLetters) forget(sender string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.senders, sender)
}

// letter makes the message; m is nil if there is no room for it, then the origin is only to be counted.
func (d *deadLetters) letter(sender string, reason *wire.Malformed, subject string, data []byte) *nats.Msg {
	if !d.hasRoom(sender, time.Now()) || !d.limits[reason.Cause].Allow() {
		return nil
	}
	m := nats.NewMsg(d.subjects.Dead(reason.Cause))
	m.Header.Set(HeaderCause, string(reason.Cause))
	m.Header.Set(HeaderDetail, reason.Detail)
	m.Header.Set(HeaderSubject, subject)
	if len(data) > d.maxBytes {
		m.Header.Set(HeaderBytes, strconv.Itoa(len(data)))
		data = data[:d.maxBytes]
	}
	m.Data = data
	d.log.Warn("dead letter", zap.String("reason", string(reason.Cause)), zap.String("detail", reason.Detail),
		zap.String("subject", subject))
	return m
}

// core keeps a core message, fire and forget: the sender's own loss is not worth waiting for.
func (d *deadLetters) core(sender string, err error, subject string, data []byte) {
	reason := reasonOf(err)
	m := d.letter(sender, reason, subject, data)
	d.count(reason.Cause, m != nil && d.nc.PublishMsg(m) == nil)
}

// report keeps a stored message and waits until it is kept; then the origin may be acknowledged. Its id makes a second
// reading of the same origin the same letter.
func (d *deadLetters) report(ctx context.Context, err error, subject string, seq uint64, data []byte) error {
	reason := reasonOf(err)
	m := d.letter(inStream, reason, subject, data)
	if m == nil {
		d.count(reason.Cause, false)
		return nil
	}
	origin := strconv.FormatUint(seq, 10)
	m.Header.Set(HeaderStreamSeq, origin)
	if _, err := d.js.PublishMsg(ctx, m, jetstream.WithMsgID("report/"+origin)); err != nil {
		return err
	}
	d.count(reason.Cause, true)
	return nil
}

func (d *deadLetters) count(c wire.Cause, kept bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.counts[c].Total++
	if !kept {
		d.counts[c].Dropped++
	}
}

func reasonOf(err error) *wire.Malformed {
	if m, ok := errors.AsType[*wire.Malformed](err); ok {
		return m
	}
	return &wire.Malformed{Cause: wire.CauseNotAnEnvelope, Detail: err.Error()}
}
