package bus

import (
	"context"
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
	HeaderStreamSeq = "Retake-Origin-Sequence" // position in the reports stream; absent for core messages
	// HeaderBytes holds the length of the whole message. It is present only if the dead letter was cut.
	HeaderBytes = "Retake-Origin-Bytes"
)

// HeaderAnswer is a header in an operator's report that names a subject below _INBOX. If the director does not act on
// the report, it sends the reason to that subject. The message's reply subject cannot be used, because the stream sends
// its acknowledgement there and does not store the subject.
const HeaderAnswer = "Retake-Answer"

// Limits on stored dead letters, per cause and per sender. Beyond a limit, messages are only counted. Without limits,
// one faulty worker could fill the disk or the log, or displace the dead letters of other workers.
const (
	deadPerSecond = 10
	deadBurst     = 50

	deadPerSender = 20
	deadWindow    = time.Hour
)

// inStream stands for the sender of a stored report. All reports in the stream share one limit, because operators can
// also write to it.
const inStream = ""

// DeadLetterCount is the number of rejected messages with one cause since the process started.
type DeadLetterCount struct {
	Cause   wire.Cause
	Total   uint64
	Dropped uint64 // part of Total that was not stored, because of a limit or an error
}

// deadLetters stores and counts rejected messages.
type deadLetters struct {
	nc       *nats.Conn
	js       jetstream.JetStream
	subjects wire.Subjects
	maxBytes int
	log      *zap.Logger

	limits map[wire.Cause]*rate.Limiter

	mu      sync.Mutex
	counts  map[wire.Cause]*DeadLetterCount
	senders map[string]*sentLetters // key: a worker or inStream
}

// sentLetters counts the dead letters of one sender in the current window.
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

// DeadLetters returns one counter per cause, in the order of wire.Causes.
func (b *Bus) DeadLetters() []DeadLetterCount {
	b.dead.mu.Lock()
	defer b.dead.mu.Unlock()
	var all []DeadLetterCount
	for _, row := range wire.Causes() {
		all = append(all, *b.dead.counts[row.Cause])
	}
	return all
}

// hasRoom counts a dead letter against its sender's limit, and reports whether the limit allows storing it.
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

// forget drops the counters of a dismissed sender.
func (d *deadLetters) forget(sender string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.senders, sender)
}

// letter returns and logs the dead letter for a message. If a limit is reached, it returns nil, and the caller only
// counts the message.
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

// core stores a dead letter for a message that is not in a stream. It does not wait for the acknowledgement, because a
// lost dead letter affects only its sender.
func (d *deadLetters) core(sender string, err error, subject string, data []byte) {
	reason := wire.Reason(err)
	m := d.letter(sender, reason, subject, data)
	d.count(reason.Cause, m != nil && d.nc.PublishMsg(m) == nil)
}

// report stores a dead letter for a stored report and waits for the acknowledgement, so that the caller can then
// acknowledge the report. A message id prevents a second dead letter if the same report is read again.
func (d *deadLetters) report(ctx context.Context, err error, subject string, seq uint64, data []byte) error {
	reason := wire.Reason(err)
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
