package bus

import (
	"fmt"
	"time"

	"golang.org/x/time/rate"
)

// What one worker may send. The rates are far above those of a worker that works (a heartbeat every few
// seconds, one report, a lease for each start of an agent), so that reaching them is no accident.
const (
	messagesPerSecond = 100
	messagesAtOnce    = 300
	bytesPerSecond    = 1 << 20
	bytesAtOnce       = 4 << 20
	hellosPerMinute   = 10
	hellosAtOnce      = 10
	refusalsPerSecond = 1
	refusalsAtOnce    = 100
	reportsPerAttempt = 32
	reportBytes       = 2 << 20 // of one attempt's reports together
)

// offenceFactor is how many times what it may send at once a worker has to send to be cut off. Between the two
// its messages are dropped.
const offenceFactor = 2

// Offence is that a worker sent more than its quota allows by far. It is cut off by then.
type Offence struct {
	Worker string    // also the attempt id
	What   string    // a clause for people, with figures: "sent 601 messages …"
	At     time.Time // UTC
}

// quota is what one worker has sent. The caller serialises its methods and has the clock.
type quota struct {
	messages, bytes, hellos, refusals meter

	reports, reportBytes int // that are stored
	refused              int // beyond what may be stored
}

func newQuota() quota {
	return quota{
		messages: newMeter(messagesPerSecond, messagesAtOnce),
		bytes:    newMeter(bytesPerSecond, bytesAtOnce),
		hellos:   newMeter(hellosPerMinute/time.Minute.Seconds(), hellosAtOnce),
		refusals: newMeter(refusalsPerSecond, refusalsAtOnce),
	}
}

// take counts a message of so many bytes. It is to be read only if it is within the quota; offence, if not
// empty, says what the worker has done. Too many hellos are none: a network that comes and goes costs one each
// time.
func (q *quota) take(now time.Time, l line, size int) (within bool, offence string) {
	messages, bytes, hellos := q.messages.take(now, 1), q.bytes.take(now, size), inQuota
	if l == lineHello {
		hellos = q.hellos.take(now, 1)
	}
	switch farOver {
	case messages:
		offence = fmt.Sprintf("sent %d messages %s, and may send %d a second and %d at once", q.messages.sum,
			q.messages.within(now), messagesPerSecond, messagesAtOnce)
	case bytes:
		offence = fmt.Sprintf("sent %s %s, and may send %s a second and %s at once", mebibytes(q.bytes.sum),
			q.bytes.within(now), mebibytes(bytesPerSecond), mebibytes(bytesAtOnce))
	}
	return messages == inQuota && bytes == inQuota && hellos == inQuota, offence
}

// mayReport reports whether a report of so many bytes may be stored as well; offence as in take.
func (q *quota) mayReport(size int) (may bool, offence string) {
	if q.reports < reportsPerAttempt && q.reportBytes+size <= reportBytes {
		return true, ""
	}
	q.refused++
	if q.refused > reportsPerAttempt*(offenceFactor-1) {
		offence = fmt.Sprintf("sent %d reports, and an attempt has %d of together %s", q.reports+q.refused,
			reportsPerAttempt, mebibytes(reportBytes))
	}
	return false, offence
}

// refusal counts a message, or a subscription, that the server has refused: no worker that works has any.
// offence as in take.
func (q *quota) refusal(now time.Time) (offence string) {
	if q.refusals.take(now, 1) == farOver {
		offence = fmt.Sprintf("tried %d times %s what it has no permission for", q.refusals.sum, q.refusals.within(now))
	}
	return offence
}

// reported counts a report that was stored.
func (q *quota) reported(size int) {
	q.reports++
	q.reportBytes += size
}

// measure is what a meter says of one use.
type measure int

const (
	inQuota measure = iota
	over
	farOver
)

// meter bounds one kind of use: a rate, so much at once, and how much beyond that is an offence.
type meter struct {
	soft, hard *rate.Limiter
	since      time.Time // when the use began that has not been made up for since
	sum        int       // of that use
}

func newMeter(perSecond float64, atOnce int) meter {
	return meter{soft: rate.NewLimiter(rate.Limit(perSecond), atOnce), hard: rate.NewLimiter(rate.Limit(perSecond),
		offenceFactor*atOnce)}
}

func (m *meter) take(now time.Time, n int) measure {
	if m.soft.TokensAt(now) >= float64(m.soft.Burst()) {
		m.since, m.sum = now, 0
	}
	m.sum += n
	within := m.soft.AllowN(now, n)
	switch {
	case !m.hard.AllowN(now, n):
		return farOver
	case !within:
		return over
	}
	return inQuota
}

// within says in how much time the use was.
func (m *meter) within(now time.Time) string {
	if took := now.Sub(m.since).Round(time.Millisecond); took > 0 {
		return "within " + took.String()
	}
	return "within a millisecond"
}

func mebibytes(n int) string { return fmt.Sprintf("%.3g MiB", float64(n)/(1<<20)) }
